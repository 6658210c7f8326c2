package jobs

import (
	"encoding/json"
	"iter"
)

// Change is one field of a plan.
type Change struct {
	Field   string `json:"field"`
	Old     string `json:"old"`
	New     string `json:"new"`
	Clear   bool   `json:"clear,omitempty"`
	Delete  bool   `json:"delete,omitempty"`  // the whole thing goes
	OldUID  string `json:"old_uid,omitempty"` // of the site that Old names
	NewUID  string `json:"new_uid,omitempty"` // of the site or component that New names
	Unknown bool   `json:"unknown,omitempty"` // the account did not tell the old value
	Made    bool   `json:"made,omitempty"`    // nothing was there before
	Open    bool   `json:"open,omitempty"`    // no secret: may be shown to anybody
	Secret  bool   `json:"secret,omitempty"`  // a password or a masked value: shown to nobody
}

// RowDetail is what the plan stores of one input row. It holds cell values and
// is therefore as secret as the input.
type RowDetail struct {
	Line     int      `json:"line"`
	Cells    []string `json:"cells"`
	UID      string   `json:"uid,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	Site     string   `json:"site,omitempty"`
	Changes  []Change `json:"changes,omitempty"` // only what this row asks for
	Reason   string   `json:"reason,omitempty"`

	Kept    []string   `json:"kept,omitempty"`    // fields that an undo leaves alone
	Match   []MatchKey `json:"match,omitempty"`   // what the row names its target by
	Request string     `json:"request,omitempty"` // operation that is sent where the job's own does not tell

	// Before is what of the target the request takes away or leaves as it is, beside
	// the changes: what an undo needs to make it again.
	Before json.RawMessage `json:"before,omitempty"`
}

// planRows yields the heading and then every row.
func (p *plan) planRows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		if !yield(Row{Class: ClassHeading, Detail: RowDetail{Cells: p.heading}}) {
			return
		}
		for row := range p.eachRow() {
			r := Row{
				Number: int(row.number), Class: row.class(), ItemKey: heldKey(row),
				Detail: RowDetail{Line: int(row.line), Cells: p.cells.of(int(row.number)), Reason: row.reason(), Changes: p.changes(row)},
			}
			if t := row.target; t != nil {
				r.Detail.UID, r.Detail.Hostname, r.Detail.Site = t.uid, t.name, t.siteName
				if !row.class().Held() {
					r.ItemKey, r.Detail.Before = p.itemKey(t), t.present
					r.Detail.Match = p.matchKeys(row)
				}
				if p.op.effect == ensures && p.due(t) && !row.class().Held() {
					r.Detail.Request = p.op.request(t.uid != "")
				}
			}
			if !yield(r) {
				return
			}
		}
	}
}

// changes are what a row asks for, beside what was before.
func (p *plan) changes(row *inputRow) []Change {
	changes := []Change{}
	if t := row.target; !p.op.hasSet() && t != nil && p.due(t) {
		switch p.op.effect {
		case calls:
			changes = callChanges(t.request)
		case removes:
			thing := p.op.thing()
			if p.op.proxy {
				thing = "proxy"
			}
			changes = append(changes, Change{Field: thing, Delete: true, Unknown: true})
		case resolves:
			changes = append(changes, Change{Field: "resolved", Old: "false", New: "true", Open: true})
		}
		return changes
	}
	masked := p.masks(row)
	for w := range row.wants.all() {
		c := Change{Field: p.job.Update.Set[w.setting].Field, New: w.value, Clear: w.clear, Unknown: true}
		if t := row.target; t != nil {
			old := t.old.of(w.setting)
			c.Old, c.Unknown, c.Made = old.text, !old.known, t.bare
			switch p.op.effect {
			case creates, starts:
				c.Made = !t.settled
				c.Unknown = t.settled && c.Unknown // where nothing is, there is nothing to be told
				if p.op.effect == starts {
					c = p.jobChange(c)
				}
			case ensures:
				c.Unknown = t.uid != "" && c.Unknown
				c.Made = t.uid == ""
			case moves:
				c.Field, c.Old, c.New = "siteName", t.siteName, p.sites.name[w.value]
				c.Open, c.OldUID, c.NewUID = true, old.text, w.value
			}
		}
		c.Secret = p.op.conceals(c.Field, c.Unknown || masked)
		changes = append(changes, c)
	}
	return changes
}

// conceals tells whether a value is a secret whatever is asked: a password, and the
// value of a variable that is masked.
func (op operation) conceals(field string, masked bool) bool {
	return field == "password" || field == "value" && masked && (op.on == aSiteVariable || op.on == anAccountVariable)
}

// masks tells whether a row wants its variable masked.
func (p *plan) masks(row *inputRow) bool {
	for w := range row.wants.all() {
		if p.job.Update.Set[w.setting].Field == "masked" && w.value == "true" {
			return true
		}
	}
	return false
}
