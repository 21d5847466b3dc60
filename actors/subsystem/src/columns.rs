//! Aligned columns of text, for the tree and the CLI's tables. No I/O.

use std::iter::repeat_n;

/// Formats `rows` as a table with two blanks between columns. The columns whose indices are in `right` are
/// right-aligned. Control characters become blanks, so that each row stays one line.
pub fn align(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        let mut separator = "";
        // A column that is empty in every row is left out.
        for (column, cell) in row.iter().enumerate().filter(|(column, _)| widths[*column] > 0) {
            line.push_str(separator);
            separator = "  ";
            let padding = repeat_n(' ', widths[column] - cell.chars().count());
            let printable = cell.chars().map(|c| if c.is_control() { ' ' } else { c });
            if right.contains(&column) {
                line.extend(padding.chain(printable));
            } else {
                line.extend(printable.chain(padding));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [row(["name", "n", "", "note"]), row(["é", "10", "", "a\nb"]), row(["x", "7", "", ""])];
        assert_eq!(align(&rows, &[1]), "name   n  note\né     10  a b\nx      7\n");
        assert_eq!(align(&[], &[]), "");
    }
}
