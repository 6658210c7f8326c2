package jobs

import (
	"gopkg.in/yaml.v3"
)

// need marks the keys that a section cannot do without.
const need = true

// job reads the whole file.
func (d *decoder) job(root *yaml.Node) *Job {
	j := &Job{}
	d.section(root, "the job", []field{
		{"version", need, d.version},
		{"name", false, d.into(&j.Name, "name")},
		{"account", false, d.into(&j.Account, "account")},
		{"export", false, func(n *yaml.Node) { j.Export = d.export(n) }},
		{"update", false, func(n *yaml.Node) { j.Update = d.update(n) }},
		{"call", false, func(n *yaml.Node) {
			if u := d.call(n); j.Update == nil {
				j.Update = u
			}
		}},
		{"guard", false, func(n *yaml.Node) { d.guard(n, &j.Guard) }},
		{"throttle", false, func(n *yaml.Node) { d.throttle(n, &j.Throttle) }},
		{"workers", false, d.number(&j.Workers, "workers", 1, 64)},
		{"timeout", false, d.duration(&j.Timeout, "timeout")},
		{"grace", false, d.duration(&j.Grace, "grace")},
		{"confirm", false, d.flag(&j.Confirm, "confirm")},
		{"results", false, func(n *yaml.Node) { j.Results, j.ResultsPos = d.path(n, "results"), d.pos(n.Line, n.Column) }},
	})
	if root.Kind != yaml.MappingNode {
		return j
	}
	if guard := child(root, "guard"); guard != nil {
		d.guardFits(valueOf(root, "guard"), j)
	}
	export, update, call := child(root, "export"), child(root, "update"), child(root, callName)
	for _, name := range []string{"guard", "results", "confirm"} {
		if key := child(root, name); key != nil && export != nil && update == nil && call == nil && len(d.faults) == 0 {
			d.fault(key, "remove it", "%q has no effect on an export, which changes nothing", name)
		}
	}
	switch {
	case export != nil && update != nil:
		d.fault(update, "make two jobs of it", "a job is an export or an update, not both")
	case call != nil && (export != nil || update != nil):
		d.fault(call, "make two jobs of it", "a job is an export, an update or a call, not two of them")
	case export == nil && update == nil && call == nil:
		d.fault(root, "add the key export or the key update", "the job does nothing")
	}
	return j
}

// valueOf finds the value of a key of a mapping, or nil.
func valueOf(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// child finds the key of a mapping, or nil.
func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i]
		}
	}
	return nil
}

func (d *decoder) version(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Style != 0 || n.Value != "1" {
		d.fault(n, "this rmmjob reads version: 1", "version must be the number 1, not %s", kind(n))
	}
}

// customKeys are the numbers of the profile custom: those of a base of the window model, then
// those of a reference profile. Which belong to which the throttle knows.
var customKeys = []string{
	"util", "guard",
	"onset", "delay_multiplier", "calibration_base", "calibration_max", "calibration_min", "confidence_count",
	"stability_threshold", "drift_threshold", "drift_scaling", "safety_overhead", "unknown_operation_factor",
}

func (d *decoder) throttle(n *yaml.Node, t *Throttle) {
	t.Pos = d.pos(n.Line, n.Column)
	fields := []field{
		{"profile", false, d.into(&t.Profile, "profile")},
		{"base", false, d.into(&t.Base, "base")},
		{"max_pause", false, d.duration(&t.MaxPause, "max_pause")},
		{"rate_limit_wait", false, d.duration(&t.RateLimitWait, "rate_limit_wait")},
		{"block_wait", false, d.duration(&t.BlockWait, "block_wait")},
		{"pause_wait", false, d.duration(&t.PauseWait, "pause_wait")},
		{"reserve", false, func(n *yaml.Node) {
			r, at, err := ReserveOf(n)
			if err != nil {
				d.fault(at, "", "reserve: %v", err)
			}
			t.Reserve = r
		}},
		{"max", false, func(n *yaml.Node) {
			text, ok := d.word(n, "max")
			if !ok {
				return
			}
			r, err := ParseRate(text)
			if err != nil {
				d.fault(n, "", "max: %v", err)
			}
			t.Max = r
		}},
		{"legacy", false, d.choice(&t.Legacy, "legacy", "auto", "on", "off")},
	}
	for _, name := range customKeys {
		fields = append(fields, field{name, false, func(n *yaml.Node) {
			v, ok := d.fraction(n, name)
			if !ok {
				return
			}
			if t.Custom == nil {
				t.Custom = make(map[string]float64)
			}
			t.Custom[name] = v
		}})
	}
	d.section(n, "throttle", fields)
	if n.Kind != yaml.MappingNode || t.Profile == "custom" {
		if t.Profile == "custom" && child(n, "base") == nil {
			d.fault(n, "for example base: medium", "the profile custom needs a base")
		}
		return
	}
	for _, name := range append([]string{"base"}, customKeys...) {
		if key := child(n, name); key != nil {
			d.fault(key, "add profile: custom", "%q has an effect only on the profile custom", name)
		}
	}
}
