package output

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// specFile is the API's published schema, where it is at hand.
const specFile = "../../../shared/api/datto-rmm-openapi.json"

type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Enum       []string          `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
}

// schemaOf names the schema each table was made from.
var schemaOf = map[string]string{
	"account": "Account", "devices": "Device", "sites": "Site", "siteSettings": "SiteSettings", "users": "AuthUser",
	"variables": "Variable", "components": "Component", "dnetSiteMappings": "DnetSiteMappingsDto", "alerts": "Alert",
	"filters": "Filter", "networkInterfaces": "Device Network Interface", "software": "Software",
	"activities": "ActivityLog", "jobs": "Job", "jobComponents": "JobComponent", "jobResults": "JobResults",
	"jobStdData": "JobStdData", "deviceAudit": "DeviceAudit", "printerAudit": "PrinterAudit",
	"esxiAudit": "ESXiHostAudit", "systemStatus": "StatusResponse", "requestRate": "RateStatusResponse",
	"pagination": "PaginationConfiguration",
}

func TestFieldsCoverTheSchema(t *testing.T) {
	raw, err := os.ReadFile(specFile)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the API's schema is not at hand")
	}
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		t.Fatal(err)
	}
	schemas := spec.Components.Schemas
	var walk func(e *element, s schema, path string)
	walk = func(e *element, s schema, path string) {
		if s.Ref != "" {
			s = schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		}
		if s.Items != nil {
			walk(e, *s.Items, path)
			return
		}
		if path != "" {
			f, ok := e.find(path)
			if !ok {
				t.Errorf("%s: the schema has %s, the table has not", e.name, path)
				return
			}
			// Values inside lists are not watched.
			if s.Enum != nil && !f.InList && !strings.HasSuffix(path, "proxySettings.type") && !slices.Equal(s.Enum, f.Enum) {
				t.Errorf("%s: %s has the values %v, the schema says %v", e.name, path, f.Enum, s.Enum)
			}
			want := map[string]Kind{"boolean": KindBool, "integer": KindInt}[s.Type]
			if want != 0 && f.Kind != want && f.Kind != KindList {
				t.Errorf("%s: %s is %v, the schema says %s", e.name, path, f.Kind, s.Type)
			}
			path += "."
		}
		for name, p := range s.Properties {
			walk(e, p, path+name)
		}
	}
	for name, e := range loadElements() {
		s, ok := schemas[schemaOf[e.base]]
		if !ok {
			t.Errorf("%s: no schema %q", name, schemaOf[name])
		}
		walk(e, s, "")
	}
}

func TestEveryReadHasAnElement(t *testing.T) {
	ops := slices.Concat(slices.Collect(maps.Keys(operationElements)), slices.Collect(maps.Keys(nested)))
	if len(ops) != 39 {
		t.Errorf("%d read operations, want 39", len(ops))
	}
	for _, op := range ops {
		name, ok := ElementOf(op)
		if !ok || !slices.Contains(Elements(), name) {
			t.Errorf("%s answers with the unknown element %q", op, name)
		}
	}
	if name, ok := ElementOf("device-udf-set"); ok {
		t.Errorf("a write has the element %q", name)
	}
}

func TestDefaultSort(t *testing.T) {
	for name, want := range map[string]string{
		"devices": "siteName hostname uid", "sites": "uid", "users": "username", "variables": "id",
		"alerts": "alertUid", "activities": "id", "filters": "id", "jobComponents": "uid", "nonsense": "",
		"site-variables": "siteName siteUid id", "device-software": "siteName siteUid hostname deviceUid name version",
		"site-devices": "", "device-by-mac": "siteName hostname macAddress uid", "job-stdout": "jobUid deviceUid componentUid",
	} {
		if got := strings.Join(DefaultSort(name), " "); got != want {
			t.Errorf("DefaultSort(%s) = %q, want %q", name, got, want)
		}
	}
	for _, name := range Elements() {
		for _, path := range DefaultSort(name) {
			if _, ok := loadElements()[name].find(path); !ok {
				t.Errorf("%s is ordered by the unknown field %s", name, path)
			}
		}
	}
}

func TestFieldsAreCopies(t *testing.T) {
	Fields("devices")[0].Path = "spoilt"
	DefaultSort("devices")[0] = "spoilt"
	if Fields("devices")[0].Path == "spoilt" || DefaultSort("devices")[0] == "spoilt" {
		t.Error("a caller can change the tables")
	}
	if Fields("nonsense") != nil {
		t.Error("an unknown element has fields")
	}
}

func TestKindNames(t *testing.T) {
	for k := KindText; k <= KindList; k++ {
		if got, ok := kindOf(k.String()); !ok || got != k {
			t.Errorf("kindOf(%s) = %v, %v", k, got, ok)
		}
	}
	if got := Kind(99).String(); got != "kind 99" {
		t.Errorf("Kind(99) = %s", got)
	}
}
