//! Requests to a node, by its version.

use super::Build;

/// Info names of the configuration, queried once.
pub fn once_names(build: Option<Build>, namespaces: &[String], sinks: impl Iterator<Item = u32>) -> Vec<String> {
    let once =
        ["edition", "version", "features", "cluster-name", "service", "services", "peers-clear-std", "status", "logs"];
    let contexts = ["get-config:context=service", "get-config:context=network"];
    let of_namespaces = namespaces.iter().map(|namespace| get_config(build, namespace));
    let of_sinks = sinks.map(|sink| format!("log/{sink}"));
    once.into_iter().chain(contexts).map(str::to_owned).chain(of_namespaces).chain(of_sinks).collect()
}

/// Info names of counters, queried repeatedly.
pub fn sample_names(build: Option<Build>, namespaces: &[String]) -> Vec<String> {
    let latencies = if build.is_none_or(Build::has_latencies) { "latencies:" } else { "latency:" };
    let of_namespaces = namespaces.iter().map(|namespace| format!("namespace/{namespace}"));
    ["node".to_owned()]
        .into_iter()
        .chain(of_namespaces)
        .chain(["statistics".to_owned(), latencies.to_owned()])
        .collect()
}

/// The name that asks for the configuration of a namespace.
pub fn get_config(build: Option<Build>, namespace: &str) -> String {
    format!("get-config:context=namespace;{}={namespace}", selector(build))
}

/// The word that selects a namespace.
pub(super) fn selector(build: Option<Build>) -> &'static str {
    if build.is_some_and(Build::selects_by_namespace) { "namespace" } else { "id" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_version() {
        let names = |build| {
            let namespaces = ["test".to_owned()];
            let build = Build::parse(build);
            [get_config(build, "test"), sample_names(build, &namespaces).join(" ")]
        };
        let old = ["get-config:context=namespace;id=test", "node namespace/test statistics latency:"];
        assert_eq!(names("4.9.0.37"), old);
        assert_eq!(
            names("8.1.0.0"),
            ["get-config:context=namespace;namespace=test", "node namespace/test statistics latencies:"]
        );
    }
}
