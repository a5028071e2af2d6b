use results::run_dir::*;
use std::path::Path;
fn cpu() -> f64 {
    let t = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    t.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let dir = Path::new(&a[1]);
    let t = cpu();
    let run = read(dir).unwrap();
    println!("read {:.2}", cpu() - t);
    let t = cpu();
    let mut i = Intervals::open(dir, &run.manifest).unwrap();
    println!("open {:.2}", cpu() - t);
    while let Some(_r) = i.next().unwrap() {}
    println!("intervals {:.2}", cpu() - t);
    for k in HlogKind::ALL {
        let mut n = 0;
        let t = cpu();
        each_window(dir, &run.manifest.layout(), k, |_w| n += 1).unwrap();
        println!("{k:?} {n} {:.2}", cpu() - t);
        let mut m = 0;
        let t = cpu();
        each_window(dir, &run.manifest.layout(), k, |w| {
            m += w.histogram.iter_recorded().count();
        })
        .unwrap();
        println!("   iterated {m} {:.2}", cpu() - t);
    }
    let _ = trace(dir, &run.manifest);
}
fn trace(dir: &Path, m: &Manifest) {
    let t = cpu();
    read_trace(dir, m).unwrap();
    println!("trace {:.2}", cpu() - t);
}
