package rmm

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// specPath leads to the API's own description, where a checkout has it beside it.
const specPath = "../../../shared/api/datto-rmm-openapi.json"

type specSchema struct {
	Ref        string                `json:"$ref"`
	Type       string                `json:"type"`
	Enum       []string              `json:"enum"`
	Items      *specSchema           `json:"items"`
	Required   []string              `json:"required"`
	Properties map[string]specSchema `json:"properties"`
}

type specContent map[string]struct {
	Schema specSchema `json:"schema"`
}

type specOperation struct {
	Parameters []struct {
		Name     string     `json:"name"`
		In       string     `json:"in"`
		Required bool       `json:"required"`
		Schema   specSchema `json:"schema"`
	} `json:"parameters"`
	RequestBody *struct {
		Content specContent `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content specContent `json:"content"`
	} `json:"responses"`
}

type specFile struct {
	Paths      map[string]map[string]specOperation `json:"paths"`
	Components struct {
		Schemas map[string]specSchema `json:"schemas"`
	} `json:"components"`
}

func (f specFile) resolve(s specSchema) specSchema {
	for s.Ref != "" {
		s = f.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// answer returns the one schema of an operation's answers: the description
// hangs it on whatever status codes it likes.
func (f specFile) answer(op specOperation) specSchema {
	for _, response := range op.Responses {
		for _, content := range response.Content {
			if s := f.resolve(content.Schema); s.Type != "" {
				return s
			}
		}
	}
	return specSchema{}
}

func specType(s specSchema) ParamType {
	switch {
	case s.Ref != "":
		return TypeObject
	case s.Type == "integer":
		return TypeInt
	case s.Type == "boolean":
		return TypeBool
	case s.Type == "array":
		return TypeStrings
	}
	return TypeString
}

func loadSpec(t *testing.T) specFile {
	t.Helper()
	data, err := os.ReadFile(specPath)
	if err != nil {
		t.Skip("the API description is not beside the repository")
	}
	var f specFile
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCatalogueAgreesWithSpec(t *testing.T) {
	spec := loadSpec(t)
	inTable := map[string]bool{}
	for _, op := range Operations() {
		inTable[op.Method+" "+op.Path] = true
		t.Run(op.Name, func(t *testing.T) {
			so, ok := spec.Paths[op.Path][strings.ToLower(op.Method)]
			if !ok {
				t.Fatalf("%s %s is not in the description", op.Method, op.Path)
			}
			checkParams(t, op, so)
			checkBody(t, spec, op, so)
			checkAnswer(t, spec, op, so)
		})
	}
	for path, methods := range spec.Paths {
		for method := range methods {
			if call := strings.ToUpper(method) + " " + path; !inTable[call] {
				t.Errorf("%s is not in the catalogue", call)
			}
		}
	}
}

func checkParams(t *testing.T, op Operation, so specOperation) {
	t.Helper()
	query := map[string]Param{}
	for _, p := range op.Query {
		query[p.Name] = p
	}
	if op.Paging == PagingPages {
		query["page"], query["max"] = Param{Name: "page", Type: TypeInt}, Param{Name: "max", Type: TypeInt}
	}
	var inPath []string
	for _, p := range so.Parameters {
		if p.In == "path" {
			inPath = append(inPath, p.Name)
			continue
		}
		have, ok := query[p.Name]
		if !ok {
			t.Errorf("query parameter %s is not in the catalogue", p.Name)
			continue
		}
		delete(query, p.Name)
		if want := specType(p.Schema); have.Type != want {
			t.Errorf("query parameter %s: type %q, want %q", p.Name, have.Type, want)
		}
		enum := p.Schema.Enum
		if p.Schema.Items != nil {
			enum = p.Schema.Items.Enum
		}
		if !slices.Equal(have.Values, enum) {
			t.Errorf("query parameter %s: values %q, want %q", p.Name, have.Values, enum)
		}
		if p.Required {
			t.Errorf("query parameter %s is required", p.Name)
		}
	}
	for name := range query {
		t.Errorf("query parameter %s is not in the description", name)
	}
	have := op.PathParams()
	slices.Sort(have)
	slices.Sort(inPath)
	if !slices.Equal(have, inPath) {
		t.Errorf("path parameters %q, want %q", have, inPath)
	}
}

func checkBody(t *testing.T, spec specFile, op Operation, so specOperation) {
	t.Helper()
	var body specSchema
	if so.RequestBody != nil {
		body = spec.resolve(so.RequestBody.Content["application/json"].Schema)
	}
	if len(op.Body) != len(body.Properties) {
		t.Errorf("%d body fields, want %d", len(op.Body), len(body.Properties))
	}
	for _, f := range op.Body {
		s, ok := body.Properties[f.Name]
		if !ok {
			t.Errorf("body field %s is not in the description", f.Name)
			continue
		}
		have := f.Type
		if have == TypeNullDate {
			have = TypeString
		}
		if want := specType(s); have != want {
			t.Errorf("body field %s: type %q, want %q", f.Name, f.Type, want)
		}
		if f.Required != slices.Contains(body.Required, f.Name) {
			t.Errorf("body field %s: required %v", f.Name, f.Required)
		}
		if !slices.Equal(f.Values, s.Enum) {
			t.Errorf("body field %s: values %q, want %q", f.Name, f.Values, s.Enum)
		}
	}
}

func checkAnswer(t *testing.T, spec specFile, op Operation, so specOperation) {
	t.Helper()
	answer := spec.answer(so)
	_, enveloped := answer.Properties["pageDetails"]
	numbered := slices.ContainsFunc(so.Parameters, func(p struct {
		Name     string     `json:"name"`
		In       string     `json:"in"`
		Required bool       `json:"required"`
		Schema   specSchema `json:"schema"`
	},
	) bool {
		return p.Name == "max"
	})
	want := PagingNone
	switch {
	case numbered:
		want = PagingPages
	case enveloped:
		want = PagingCursor
	case answer.Type == "array":
		want = PagingArray
	}
	if op.IsWrite() {
		want = PagingNone
	}
	if op.Paging != want {
		t.Fatalf("paging %q, want %q", op.Paging, want)
	}
	element := answer
	if op.Element != "" {
		element = answer.Properties[op.Element]
		if element.Type != "array" {
			t.Fatalf("the answer has no array %q", op.Element)
		}
	}
	if element.Items != nil {
		element = spec.resolve(*element.Items)
	}
	if _, ok := element.Properties[op.Key]; op.Key != "" && !ok {
		t.Errorf("an element has no field %q", op.Key)
	}
}

func TestCatalogueIsWhole(t *testing.T) {
	reads, writes := 0, 0
	seen := map[string]bool{}
	for _, op := range Operations() {
		if seen[op.Name] {
			t.Errorf("%s is there twice", op.Name)
		}
		seen[op.Name] = true
		if op.IsWrite() {
			writes++
		} else {
			reads++
		}
		if op.Summary == "" || strings.HasSuffix(op.Summary, ".") {
			t.Errorf("%s: summary %q", op.Name, op.Summary)
		}
		if (op.Method == "GET") != (op.Class == ClassRead) {
			t.Errorf("%s: class %s with %s", op.Name, op.Class, op.Method)
		}
		if (op.Element != "") != (op.Paging == PagingPages || op.Paging == PagingCursor) {
			t.Errorf("%s: element %q with paging %q", op.Name, op.Element, op.Paging)
		}
		if op.Throttle != "" && op.Throttle != op.Name {
			t.Errorf("%s: throttle name %s", op.Name, op.Throttle)
		}
		if got, ok := Lookup(op.Name); !ok || got.Path != op.Path {
			t.Errorf("Lookup(%s) = %v, %v", op.Name, got.Path, ok)
		}
	}
	if reads != 39 || writes != 18 {
		t.Errorf("%d reads and %d writes, want 39 and 18", reads, writes)
	}
}

func TestClasses(t *testing.T) {
	want := map[Class][]string{
		ClassIdempotent: {
			"account-variable-update", "alert-mute", "alert-unmute", "device-move", "device-udf-set",
			"device-warranty-create", "site-proxy-create", "site-update", "site-variable-update",
		},
		ClassVerify: {
			"account-variable-create", "account-variable-delete", "alert-resolve", "site-create",
			"site-proxy-delete", "site-variable-create", "site-variable-delete",
		},
		ClassUnsafe: {"device-job-create", "user-reset-keys"},
	}
	have := map[Class][]string{}
	for _, op := range Operations() {
		if op.IsWrite() {
			have[op.Class] = append(have[op.Class], op.Name)
		}
	}
	for class, names := range want {
		slices.Sort(have[class])
		if !slices.Equal(have[class], names) {
			t.Errorf("%s: %q, want %q", class, have[class], names)
		}
	}
}

func TestLane(t *testing.T) {
	for name, want := range map[string]string{
		"devices": "read", "request-rate": "read", "device-udf-set": "device-udf-set", "alert-mute": "alert-mute",
	} {
		op, ok := Lookup(name)
		if !ok || op.Lane() != want {
			t.Errorf("lane of %s is %q, want %q", name, op.Lane(), want)
		}
	}
}

func TestSuggest(t *testing.T) {
	for in, want := range map[string]string{
		"device": "device", "devcies": "devices", "Devices ": "devices", "alerts_open": "alerts-open",
		"device-udf-sett": "device-udf-set", "qqqqqqqq": "", "": "", strings.Repeat("x", 1000): "",
	} {
		if got := Suggest(in); got != want {
			t.Errorf("Suggest(%.20q) = %q, want %q", in, got, want)
		}
	}
}

func TestOperationsIsACopy(t *testing.T) {
	Operations()[0].Name = "spoilt"
	if Operations()[0].Name == "spoilt" {
		t.Error("a caller can change the catalogue")
	}
}
