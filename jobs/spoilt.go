package jobs

import (
	"regexp"
	"strings"
)

// mendMark stands before a cell of rejected.csv that would pass for a good one: the
// text of a file does not show what was wrong with the cell of a workbook, or with
// the number of cells of a row. A cell with the mark is refused wherever it is read.
const mendMark = "#MEND!"

// formulaError is what a spreadsheet shows in the place of a value that it cannot
// compute or that its column is too narrow for, in the languages that have their own
// words for it.
var formulaError = regexp.MustCompile(`^(#[¡¿]?\p{Lu}[\p{Lu}_]*(/0)?[!?]|#GETTING_DATA|#N/[ADV]|#NV|#{2,}|Err:5[0-9]{2})$`)

// textFormula is how programs write text that Excel shall not turn into a number.
var textFormula = regexp.MustCompile(`^="([^"]*)"$`)

// spoilt tells what is wrong with the text of a cell that the job uses, whatever its
// file; "" where nothing is. Scientific notation is counted by itself.
func spoilt(cell string) (fault, hint string) {
	if !strings.Contains(cell, "#") && !strings.Contains(cell, "Err:") {
		return "", ""
	}
	switch text := trimBlank(cell); {
	case strings.HasPrefix(text, mendMark):
		return "the value has not been mended", "put the right value in its place, or take " + mendMark + " away if it is the right one"
	case formulaError.MatchString(text):
		return "the cell holds the error " + clip(text, 40), "the spreadsheet had no value here: mend the formula or widen the column, and save again"
	}
	return "", ""
}

// unformula gives the text of a cell that was written as a formula to keep it text.
func unformula(cell string) string {
	if strings.HasPrefix(cell, "=") {
		if m := textFormula.FindStringSubmatch(cell); m != nil {
			return m[1]
		}
	}
	return cell
}
