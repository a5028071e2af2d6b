//! Scratch.
fn main() {
    let dirs: Vec<_> = std::env::args().skip(2).collect();
    let t = std::time::Instant::now();
    let document = report::document::Document::read(&dirs).unwrap();
    eprintln!("read {:?}", t.elapsed());
    let out = std::env::args().nth(1).unwrap();
    std::fs::write(format!("{out}.html"), document.html()).unwrap();
    std::fs::write(format!("{out}.json"), document.json().unwrap()).unwrap();
    std::fs::write(format!("{out}.md"), document.markdown()).unwrap();
    eprintln!("{}", document.text());
}
