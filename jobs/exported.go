package jobs

import (
	"strings"

	"rmmjob/internal/output"
)

// exportStyles are the options of an output that change text on its way out.
var exportStyles = func() []output.Style {
	var styles []output.Style
	for _, formulas := range []string{"keep", "guard"} {
		for _, newlines := range []string{"keep", "space", "escape"} {
			styles = append(styles, output.Style{Formulas: formulas, Newlines: newlines})
		}
	}
	return styles
}()

// asExported tells whether a cell is what an export writes for a present value with one of the options that change text:
// made inert for spreadsheets, or with its line breaks written in another way. So an export that is fed back as it is
// changes nothing, whatever options it was made with.
func asExported(present, cell string) bool {
	if present == "" || !strings.ContainsAny(present, "\r\n=+-@\t＝＋－＠") {
		return false
	}
	column, record := output.Column{Path: "v"}, output.Record{"v": present}
	for _, s := range exportStyles {
		if column.Unchanged(cell, record, s) {
			return true
		}
	}
	return false
}
