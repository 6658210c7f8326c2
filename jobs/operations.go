package jobs

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rmmjob/internal/rmm"
	"rmmjob/internal/spell"
)

// subject is what the rows of an update are about.
type subject int

const (
	aDevice subject = iota
	aSite
	aSiteVariable
	anAccountVariable
	anAlert
	aCall
)

// subjects tells of each kind of target what people call it, the list that has
// all of them, the fields by which a row names one, and the fields of the list
// that identify it and tell its name and its site.
var subjects = [...]struct {
	thing, list     string
	match           []string
	uid, name, site string
}{
	aDevice:           {"device", "devices", []string{"uid", "id", "hostname", byMAC, bySerial, "siteName", "siteUid"}, "uid", "hostname", "siteName"},
	aSite:             {"site", "sites", []string{"uid", "id", "name"}, "uid", "name", "name"},
	aSiteVariable:     {"variable", "site-variables", []string{"name", "siteUid", "siteId", "siteName"}, "id", "name", ""},
	anAccountVariable: {"variable", "variables", []string{"name"}, "id", "name", ""},
	anAlert:           {"alert", "alerts-open", []string{"alertUid"}, "alertUid", "alertSourceInfo.deviceName", "alertSourceInfo.siteName"},
	aCall:             {thing: "request"},
}

// effect is what an operation does to its target.
type effect int

const (
	sets     effect = iota // gives fields of the target a value
	creates                // makes the target, unless one of that name is there
	ensures                // gives the target a value, and makes it where there is none of that name
	removes                // takes the target away
	moves                  // gives a device another site
	starts                 // does something new each time
	resolves               // closes the target
	mutes                  // is answered and has no effect
	calls                  // is a request that the job makes itself
)

// operation is a write that an update can send.
type operation struct {
	name   string
	on     subject
	effect effect
	need   []string // fields that set must have
	core   []string // fields that the target must have in the end, by the job or as they are
	// whole: what the request leaves out is lost, so the fields that a job does
	// not set are sent with their present values.
	whole   bool
	proxy   bool   // is about the proxy of a site, which one read per site tells
	confirm string // why it needs a person's agreement; "" if it does not
	warning string // what a person should know before
}

// updatable are the operations that an update can write.
var updatable = []operation{
	{name: "device-udf-set"},
	{name: "device-warranty-create"},
	{name: "device-move", effect: moves, confirm: "it moves devices to another site"},
	{name: "device-job-create", effect: starts, need: []string{jobNameField, componentField}, confirm: "it runs a component on devices"},
	{name: "site-create", on: aSite, effect: creates, need: []string{"name"}},
	{name: "site-update", on: aSite, whole: true},
	{name: "site-proxy-create", on: aSite, whole: true, proxy: true, core: []string{"host", "port", "type"}, confirm: "it changes the proxies of sites"},
	{name: "site-proxy-delete", on: aSite, effect: removes, proxy: true, confirm: "it removes the proxies of sites"},
	{name: "site-variable-create", on: aSiteVariable, effect: creates, need: []string{"name", "value"}},
	{name: "site-variable-update", on: aSiteVariable, whole: true, need: []string{"value"}},
	{name: "site-variable-delete", on: aSiteVariable, effect: removes, confirm: "it deletes variables of sites"},
	{name: "site-variable-set", on: aSiteVariable, effect: ensures, whole: true, need: []string{"value"}},
	{name: "account-variable-create", on: anAccountVariable, effect: creates, need: []string{"name", "value"}},
	{name: "account-variable-update", on: anAccountVariable, whole: true, need: []string{"value"}},
	{name: "account-variable-delete", on: anAccountVariable, effect: removes, confirm: "it deletes variables of the account"},
	{name: "account-variable-set", on: anAccountVariable, effect: ensures, whole: true, need: []string{"value"}},
	{name: "alert-resolve", on: anAlert, effect: resolves},
	{name: "alert-mute", on: anAlert, effect: mutes, warning: "alert-mute is answered by the service but has had no effect since 8.9.0"},
	{name: "alert-unmute", on: anAlert, effect: mutes, warning: "alert-unmute is answered by the service but has had no effect since 8.9.0"},
}

// notForJobs are the writes that no job may send, with the reason.
var notForJobs = map[string]string{
	"user-reset-keys": "it ends the API key that the job itself runs with",
}

// operationOf finds an operation; the first of the table where the name is none.
func operationOf(name string) operation {
	if name == callName {
		return operation{name: callName, on: aCall, effect: calls}
	}
	i := slices.IndexFunc(updatable, func(op operation) bool { return op.name == name })
	return updatable[max(i, 0)]
}

// request is the operation of the API that is sent for a target: the one of the same
// name, but for what is set by name, which is made where it is not there yet.
func (op operation) request(there bool) string {
	base, ok := strings.CutSuffix(op.name, "-set")
	switch {
	case !ok || op.effect != ensures:
		return op.name
	case there:
		return base + "-update"
	}
	return base + "-create"
}

// described is the operation of the API that has all fields that a job may set.
func (op operation) described() rmm.Operation {
	known, _ := rmm.Lookup(op.request(false))
	return known
}

// Confirmation says why the operation needs a person's agreement before anything
// is sent: confirm: true in the job, or --yes. It is "" where it needs none.
func (u *UpdateSpec) Confirmation() string {
	if u.Call != nil && u.Call.Class != rmm.ClassRead {
		return "it sends requests whose effect rmmjob does not know"
	}
	return operationOf(u.Operation.Name).confirm
}

// Warning is what a person should know about the operation, or "".
func (u *UpdateSpec) Warning() string { return operationOf(u.Operation.Name).warning }

// Thing is what a target of the operation is called: device, site, variable or
// alert.
func (u *UpdateSpec) Thing() string { return operationOf(u.Operation.Name).thing() }

// Thing is what a target of an operation is called, by the operation's name.
func Thing(name string) string { return operationOf(name).thing() }

// OperationOfItem is the operation of the job that an item of the stage apply belongs
// to, by the item's key; "" for an item of another kind.
func OperationOfItem(key string) string {
	rest, ok := strings.CutPrefix(key, applyPrefix)
	name, _, _ := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	return name
}

func (op operation) thing() string { return subjects[op.on].thing }

// hasSet tells whether the job gives values.
func (op operation) hasSet() bool {
	switch op.effect {
	case removes, resolves, mutes, calls:
		return false
	}
	return true
}

// matchFields are the fields by which a row names its target. A thing that is to
// be made has none but the site that it belongs to.
func (op operation) matchFields() []string {
	fields := subjects[op.on].match
	if op.effect != creates {
		return fields
	}
	if op.on == aSiteVariable {
		return fields[1:]
	}
	return nil
}

// ofSites tells whether the sites that the rows name must be known before more
// can be read.
func (op operation) ofSites() bool { return op.on == aSiteVariable || op.proxy }

// OfFleet tells whether the targets of the update are a share of all that the
// account has, so that guard.max_percent means something.
func (u *UpdateSpec) OfFleet() bool { return operationOf(u.Operation.Name).ofFleet() }

// ofFleet tells whether the targets are a share of all that the account has.
func (op operation) ofFleet() bool {
	return (op.on == aDevice || op.on == aSite || op.on == anAlert) && op.effect != creates
}

// variableOfJob begins the names of settings that are variables of a quick job.
const variableOfJob = "variables."

// fields are the names that a job may set; UDFs are too many to be listed.
func (op operation) fields() []string {
	switch {
	case op.effect == moves:
		return []string{"siteUid", "siteName"}
	case op.effect == starts:
		return []string{jobNameField, componentField, "variables"}
	case op.effect == sets && op.name == updatable[0].name:
		return nil
	case op.effect == ensures:
		return []string{"value", "masked"} // the name is the key
	case op.effect == sets && (op.on == aSiteVariable || op.on == anAccountVariable):
		return []string{"value"} // the name is the key
	}
	var names []string
	for _, f := range op.described().Body {
		if f.Type != rmm.TypeObject {
			names = append(names, f.Name)
		}
	}
	return names
}

// checkField returns the fault of the name of a field and a hint, or nothing.
func (op operation) checkField(name string) (fault, hint string) {
	known := op.fields()
	switch {
	case known == nil:
		return udfField(name)
	case slices.Contains(known, name):
		return "", ""
	}
	return fmt.Sprintf("unknown field %q of %s", clip(name, 40), op.name), suggestion(name, known)
}

var udfName = regexp.MustCompile(`^udf([0-9]+)$`)

func udfField(name string) (string, string) {
	m := udfName.FindStringSubmatch(spell.Fold(name))
	if m == nil {
		return fmt.Sprintf("unknown field %q of device-udf-set", clip(name, 40)), fmt.Sprintf("the fields are udf1 to udf%d", rmm.MaxUDF)
	}
	number, err := strconv.Atoi(m[1])
	if err != nil || number < 1 || number > rmm.MaxUDF {
		return fmt.Sprintf("there is no field %s", clip(name, 40)), fmt.Sprintf("the fields are udf1 to udf%d", rmm.MaxUDF)
	}
	if exact := "udf" + strconv.Itoa(number); exact != name {
		return fmt.Sprintf("unknown field %q of device-udf-set", clip(name, 40)), fmt.Sprintf("did you mean %q?", exact)
	}
	return "", ""
}

// field is the description of a field of the operation's body.
func (op operation) field(name string) rmm.Field {
	if op.name == updatable[0].name {
		return rmm.Field{Name: name, Type: rmm.TypeString} // three hundred are not worth a search
	}
	known := op.described()
	if i := slices.IndexFunc(known.Body, func(f rmm.Field) bool { return f.Name == name }); i >= 0 {
		return known.Body[i]
	}
	return rmm.Field{Name: name, Type: rmm.TypeString}
}

// mustHave tells whether a field may not be empty.
func (op operation) mustHave(name string) bool {
	return op.field(name).Required || name != "value" && slices.Contains(op.need, name) || slices.Contains(op.core, name)
}

// checkValue reads the value of a field that is neither empty nor to be cleared,
// and gives it in the form in which it is compared and sent.
func (op operation) checkValue(field, value, dateFormat string) (string, error) {
	f := op.field(field)
	switch {
	case field == warrantyDate:
		return warrantyDay(value, dateFormat)
	case op.name == updatable[0].name:
		if n := utf16Len(value); n > MaxUDFLength {
			return "", fmt.Errorf("%d characters, %d fit", n, MaxUDFLength)
		}
		return value, nil
	case f.Type == rmm.TypeBool:
		// Spreadsheets write TRUE.
		if s := normalise(value); s == "true" || s == "false" {
			return s, nil
		}
		return "", fmt.Errorf("%q is neither true nor false", clip(value, 30))
	case f.Type == rmm.TypeInt:
		n, err := strconv.Atoi(trimBlank(value))
		if err != nil || n < 1 || n > 65535 {
			return "", fmt.Errorf("%q is not a port from 1 to 65535", clip(value, 30))
		}
		return strconv.Itoa(n), nil
	case len(f.Values) > 0:
		if s := normalise(value); slices.Contains(f.Values, s) {
			return s, nil
		}
		return "", fmt.Errorf("%q is not %s", clip(value, 30), orList(f.Values))
	case op.mustHave(field) || op.effect == moves:
		if value = trimBlank(value); value == "" {
			return "", fmt.Errorf("it is blank")
		}
	}
	return value, nil
}

// clearable tells whether a field can be emptied.
func (op operation) clearable(field string) bool {
	t := op.field(field).Type
	return !op.mustHave(field) && op.effect != moves && t != rmm.TypeBool && t != rmm.TypeInt && len(op.field(field).Values) == 0
}

// siteField turns the field by which a row names a site into that of the list of
// sites: siteName is the name of a site.
func siteField(field string) string {
	if rest, ok := strings.CutPrefix(field, "site"); ok {
		return strings.ToLower(rest)
	}
	return field
}
