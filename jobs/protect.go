package jobs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Selector names things of the account that a job must not touch. All its conditions must hold.
type Selector struct {
	Conditions []Condition // at least one
	Pos        Pos
}

// Condition is that a field has one of some values. Values are compared whole and without regard to case; in all but
// user-defined fields an asterisk stands for any text and a question mark for one character.
type Condition struct {
	Field  string // hostname, site, class, uid, or udf1 to udf300
	Values []string

	patterns []*regexp.Regexp
}

// The fields that selectors have, beside user-defined ones.
const (
	bySite     = "site" // name or uid
	byHostname = "hostname"
	byClass    = "class"
	byUID      = "uid"
)

// selectorFields are the fields of selectors that a kind of target tells.
var selectorFields = [...][]string{
	aDevice:       {byHostname, bySite, byClass, byUID, "udf1"},
	aSite:         {bySite, byUID},
	aSiteVariable: {bySite},
	anAlert:       {byHostname, bySite},
}

// selectorsOf are the fields of selectors for the targets of an operation; nil if nothing can protect them.
func selectorsOf(on subject) []string {
	if int(on) < len(selectorFields) {
		return selectorFields[on]
	}
	return nil
}

// protected reads the selectors of a guard.
func (d *decoder) protected(n *yaml.Node) []Selector {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var list []Selector
	for _, item := range items {
		s := Selector{Pos: d.pos(item.Line, item.Column)}
		ok := d.pairs(item, "protected", func(key, value *yaml.Node) {
			c := Condition{Field: key.Value}
			known := []string{byHostname, bySite, byClass, byUID}
			if !slices.Contains(known, c.Field) {
				if fault, hint := udfField(c.Field); fault != "" {
					if !udfName.MatchString(c.Field) {
						fault, hint = fmt.Sprintf("unknown field %q of protected", clip(c.Field, 40)), suggestion(c.Field, append(known, "udf1"))
					}
					d.fault(key, hint, "%s", fault)
					return
				}
			}
			if c.Values = d.words(value, c.Field); len(c.Values) == 0 {
				return
			}
			for _, v := range c.Values {
				c.patterns = append(c.patterns, pattern(v, !isUDFName(c.Field)))
			}
			s.Conditions = append(s.Conditions, c)
		})
		switch {
		case !ok:
		case len(item.Content) == 0:
			d.fault(item, "it would protect everything", "a selector without a condition")
		default:
			list = append(list, s)
		}
	}
	return list
}

func isUDFName(field string) bool { return udfName.MatchString(field) }

// pattern compares text whole, without regard to case and to blanks around it.
func pattern(value string, globs bool) *regexp.Regexp {
	text := regexp.QuoteMeta(trimBlank(value))
	if globs {
		text = strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(text)
	}
	return regexp.MustCompile("(?is)^" + text + "$")
}

// guardFits checks the parts of a guard that not every operation has.
func (d *decoder) guardFits(n *yaml.Node, j *Job) {
	if j.Update == nil || j.Update.Operation.Name == "" {
		return
	}
	op := operationOf(j.Update.Operation.Name)
	fields := selectorsOf(op.on)
	if key := child(n, "protected"); key != nil && fields == nil {
		d.fault(key, "remove it", "protected has no effect on %s", op.name)
		return
	}
	if key := child(n, "max_percent"); key != nil && !op.ofFleet() {
		d.fault(key, "use max_changes", "max_percent has no effect on %s: there is no fleet that it is a share of", op.name)
	}
	for _, s := range j.Guard.Protected {
		for _, c := range s.Conditions {
			name := c.Field
			if isUDFName(name) {
				name = "udf1"
			}
			if !slices.Contains(fields, name) {
				known := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f == "udf1" })
				d.faultAt(s.Pos.Line, s.Pos.Column, "fields here: "+strings.Join(known, ", "), "%s does not tell %s of a %s, so nothing can be protected by it", op.name, c.Field, op.thing())
			}
		}
	}
}

// traits are what is known of a target for the selectors, by field.
type traits func(field string) []string

// deviceTraits reads the traits of a device or an alert from its element.
func deviceTraits(on subject, element json.RawMessage) traits {
	return func(field string) []string {
		path := map[string][]string{
			byHostname: {"hostname"}, bySite: {"siteName", "siteUid"}, byClass: {"deviceClass"}, byUID: {"uid"},
		}[field]
		switch {
		case on == anAlert:
			path = map[string][]string{
				byHostname: {"alertSourceInfo.deviceName"}, bySite: {"alertSourceInfo.siteName", "alertSourceInfo.siteUid"},
			}[field]
		case path == nil:
			path = []string{"udf." + field}
		}
		values := make([]string, len(path))
		for i, p := range path {
			values[i] = keyOf(p, element)
		}
		return values
	}
}

// siteTraits are those of a site, or of what belongs to it.
func siteTraits(name, uid string) traits {
	return func(field string) []string {
		switch field {
		case bySite:
			return []string{name, uid}
		case byUID:
			return []string{uid}
		}
		return nil
	}
}

// protects says which selector of the guard something falls under; "" when none.
func (g Guard) protects(t traits) string {
	for _, s := range g.Protected {
		if s.fits(t) {
			return "protected by " + s.String()
		}
	}
	return ""
}

// fits tells whether all conditions of the selector hold.
func (s Selector) fits(t traits) bool {
	return !slices.ContainsFunc(s.Conditions, func(c Condition) bool { return !c.holds(t(c.Field)) })
}

// holds tells whether one of the values is one of those of the condition.
func (c Condition) holds(values []string) bool {
	return slices.ContainsFunc(c.patterns, func(p *regexp.Regexp) bool {
		return slices.ContainsFunc(values, func(v string) bool { return v != "" && p.MatchString(trimBlank(v)) })
	})
}

// String gives the conditions. The values of user-defined fields are left out: they may be secrets.
func (s Selector) String() string {
	parts := make([]string, len(s.Conditions))
	for i, c := range s.Conditions {
		parts[i] = c.Field
		if !isUDFName(c.Field) {
			parts[i] += " " + strings.Join(c.Values, ", ")
		}
	}
	return strings.Join(parts, " and ")
}
