//! A table of text whose columns are as wide as their widest cells.

/// Rows of equally many cells as lines; the first row is the head. No line ends in blanks.
pub fn table<R: AsRef<[String]>>(rows: &[R]) -> String {
    let cells = || rows.iter().map(AsRef::as_ref);
    let width = |column: usize| cells().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let columns = cells().map(<[String]>::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String]| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    cells().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_as_wide_as_its_widest_cells() {
        let rows = [vec!["a".to_owned(), "load".to_owned()], vec!["stage 1".to_owned(), "30x".to_owned()]];
        assert_eq!(table(&rows), "a        load\nstage 1  30x\n");
        assert_eq!(table::<Vec<String>>(&[]), "");
    }
}
