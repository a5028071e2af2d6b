//! Compares the tables in docs/data.md with their declarations.

use crate::docs_page::{assert_page, with_part};

/// Lines of docs/data.md around the generated part.
const BEGIN: &str = "<!-- Generated from the tables. To update: UPDATE_DOCS=1 cargo test -p flashproof-export --test export docs -->\n";
const END: &str = "<!-- End of the generated part -->\n";

pub(crate) const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data.md");

#[test]
fn data_md_documents_the_tables_as_they_are_declared() {
    let tables: Vec<String> = export::TABLES
        .iter()
        .map(export::TableSchema::markdown)
        .collect();
    assert_page(
        "data.md",
        "flashproof-export --test export docs",
        |written| with_part(written, BEGIN, &format!("\n{}\n", tables.join("\n")), END),
    );
}

#[test]
fn names_are_unique_and_every_column_is_explained() {
    for (at, table) in export::TABLES.iter().enumerate() {
        assert!(
            export::TABLES[..at]
                .iter()
                .all(|other| other.name != table.name),
            "{}",
            table.name
        );
        let key = table.columns[0].name;
        assert!(
            matches!(key, "run_id" | "series_id" | "campaign"),
            "{} begins with {key}",
            table.name
        );
        for (at, column) in table.columns.iter().enumerate() {
            assert!(
                table.columns[..at]
                    .iter()
                    .all(|other| other.name != column.name),
                "{}",
                column.name
            );
        }
        assert!(!table.markdown().contains("|  |"), "{}", table.markdown());
    }
}
