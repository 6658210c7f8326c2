package runner

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"rmmjob/checkpoint"
	"rmmjob/internal/rmm"
	"rmmjob/jobs"
)

// meanwhile lets somebody else act while the first request of an operation is under
// way, which then breaks off without having been carried out.
func (b *bench) meanwhile(op string, act func()) func(*Config) {
	first := true
	return func(cfg *Config) {
		to := cfg.Caller
		cfg.Caller = caller(func(ctx context.Context, req rmm.Request) (rmm.Response, error) {
			if req.Op != op || !first {
				return to.Do(ctx, req)
			}
			first = false
			act()
			return rmm.Response{}, &rmm.Error{Op: op, Kind: rmm.KindStatus, Status: http.StatusInternalServerError, Message: "500", JSON: true, Sent: true}
		})
	}
}

// That something of a name is there does not show that a create whose answer was lost
// has made it: all that can be read must be as it was sent.
func TestLostCreateMeetsAnother(t *testing.T) {
	variable := "  match: {siteName: '{site}'}\n  set: {name: '{name}', value: '{value}'}"
	masked := "  set: {name: '{name}', value: '{value}', masked: true}"
	tests := []struct {
		name string
		scenario
		theirs string // what somebody else makes at the same time
		class  string // "" where it may be taken for ours
		reason string
		doubt  bool
	}{
		{
			name: "variable of a site", scenario: scenario{op: "site-variable-create", update: variable, csv: "site,name,value\n<site0>,Fresh,ours\n"},
			theirs: `{"name":"Fresh","value":"theirs"}`, class: "conflict", reason: "a variable of this name with another value",
		},
		{
			name: "variable of a site, set", scenario: scenario{op: "site-variable-set", update: "  match: {siteName: '{site}', name: '{name}'}\n  set: {value: '{value}'}", csv: "site,name,value\n<site0>,Fresh,ours\n"},
			theirs: `{"name":"Fresh","value":"theirs"}`, class: "conflict", reason: "a variable of this name with another value",
		},
		{
			name: "the same value", scenario: scenario{op: "site-variable-create", update: variable, csv: "site,name,value\n<site0>,Fresh,ours\n"},
			theirs: `{"name":"Fresh","value":"ours"}`,
		},
		{
			name: "variable of the account", scenario: scenario{op: "account-variable-create", update: "  set: {name: '{name}', value: '{value}'}", csv: "name,value\nFresh,ours\n"},
			theirs: `{"name":"Fresh","value":"theirs"}`, class: "conflict", reason: "another value",
		},
		{
			name: "open where masked was sent", scenario: scenario{op: "account-variable-create", update: masked, csv: "name,value\nFresh,ours\n"},
			theirs: `{"name":"Fresh","value":"ours"}`, class: "conflict", reason: "another masked",
		},
		{
			name: "masked", scenario: scenario{op: "account-variable-create", update: masked, csv: "name,value\nFresh,ours\n"},
			theirs: `{"name":"Fresh","value":"theirs","masked":true}`, doubt: true,
		},
		{
			name: "site", scenario: scenario{op: "site-create", update: "  set: {name: '{name}', description: ours, onDemand: false}", csv: "name\nFresh\n"},
			theirs: `{"name":"Fresh","description":"ours","onDemand":true}`, class: "conflict", reason: "another onDemand",
		},
		{
			name: "site with a text that was not sent", scenario: scenario{op: "site-create", update: "  set: {name: '{name}'}", csv: "name\nFresh\n"},
			theirs: `{"name":"Fresh","notes":"theirs"}`, class: "conflict", reason: "another notes",
		},
		{
			name: "site of another spelling", scenario: scenario{op: "site-create", update: "  set: {name: '{name}'}", csv: "name\nFresh\n"},
			theirs: `{"name":"FRESH"}`, class: "conflict", reason: "another name",
		},
	}
	for _, tt := range tests {
		for _, check := range []bool{false, true} {
			name := tt.name
			if check {
				name += ", looked up by resolve"
			}
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := stage(t)
					b.play(tt.scenario)
					op := strings.Replace(tt.op, "-set", "-create", 1)
					var path map[string]string
					if strings.HasPrefix(op, "site-variable") {
						path = map[string]string{"siteUid": b.word("<siteuid0>")}
					}
					acted := false
					theirs := b.meanwhile(op, func() {
						_, err := b.client.Do(t.Context(), rmm.Request{Op: op, Path: path, Body: json.RawMessage(tt.theirs)})
						b.check(err)
						acted = true
					})
					var sum Summary
					if check {
						ctx, stop := context.WithCancel(t.Context())
						first := b.runIn(ctx, theirs, func(cfg *Config) {
							to := cfg.Caller
							cfg.Caller = caller(func(ctx context.Context, req rmm.Request) (rmm.Response, error) {
								if req.Op == op {
									defer stop()
								}
								return to.Do(ctx, req)
							})
						})
						if first.Counts.InDoubt != 1 {
							t.Fatalf("%+v", first.Counts)
						}
						b.reopen()
						b.work = jobs.NewCheckWork(jobs.Settings{}, b.began, b.began)
						sum = b.run(func(cfg *Config) { cfg.ReadOnly = true })
					} else {
						sum = b.run(theirs)
					}
					if !acted {
						t.Fatal("nobody else has made anything")
					}
					item := b.item(op)
					switch {
					case tt.doubt:
						if item.State != checkpoint.StateInDoubt {
							t.Errorf("%s: %s", item.State, item.Reason)
						}
					case tt.class == "":
						if item.State != checkpoint.StateDone {
							t.Errorf("%s: %s", item.State, item.Reason)
						}
					case item.State != checkpoint.StateFailed || item.Class != tt.class || !strings.Contains(item.Reason, tt.reason):
						t.Errorf("%s %s: %s", item.State, item.Class, item.Reason)
					}
					if sum.Counts.Pending > 0 {
						t.Errorf("%+v", sum.Counts)
					}
				})
			})
		}
	}
}
