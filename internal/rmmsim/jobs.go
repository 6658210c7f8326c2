package rmmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// How long a quick job takes on a device that is online, and how long it
// waits for one that is not.
const (
	jobStart  = 15 * time.Second
	jobTakes  = 90 * time.Second
	jobExpiry = 7 * 24 * time.Hour
)

// job is a quick job: of a call, or of the drawn activity log.
type job struct {
	id        int64
	uid, name string
	dev       *device
	component component
	variables []json.RawMessage
	created   time.Time
	given     bool // made by a call
}

type component struct {
	id                          int64
	uid, name, description, cat string
	credentials                 bool
	variables                   []string
}

var componentNames = []string{
	"Restart Print Spooler", "Clear Temp Files", "Install 7-Zip", "Force Group Policy Update", "Check Disk Space", "Rename Computer",
	"Run Windows Update", "Collect Event Logs", "BitLocker Key to UDF", "Deploy Wi-Fi Profile", "Uninstall Software", "Réparer WMI",
}

func (f *fleet) component(i int) component {
	d := newDraw(f.seed, kindComponent, uint64(i))
	c := component{
		id: int64(7000 + i), uid: makeUID(f.seed, kindComponent, uint32(i), 0), name: componentNames[i],
		cat: pick(&d, []string{"scripts", "applications", "monitors"}), credentials: d.chance(100),
	}
	if d.chance(600) {
		c.description = "Runs: " + c.name
	}
	for k := range d.below(4) {
		c.variables = append(c.variables, fmt.Sprintf("usrVar%d", k+1))
	}
	return c
}

func (a *Account) renderComponent(i int) json.RawMessage {
	c := a.component(i)
	variables := []json.RawMessage{}
	for k, name := range c.variables {
		variables = append(variables, object("name", name, "defaultVal", nil, "type", "string", "direction", true, "description", nil, "variablesIdx", k))
	}
	return object("id", c.id, "credentialsRequired", c.credentials, "uid", c.uid, "name", c.name, "description", orNull(c.description),
		"categoryCode", c.cat, "variables", variables)
}

// job finds a job by uid.
func (a *Account) job(c *call, uid string) *job {
	if j := a.jobs[uid]; j != nil {
		return j
	}
	i, k, ok := readUID(a.seed, kindJob, uid)
	if !ok || k != 0 {
		return nil
	}
	e, ok := a.drawnEvent(int64(i))
	if !ok || e.job == nil || e.at.After(c.now) {
		return nil
	}
	return e.job
}

// state is the deployment status of a job on its device at now, and whether
// the job is over.
func (j *job) state(now time.Time) (status string, over bool) {
	age := now.Sub(j.created)
	switch {
	case !j.dev.online && age < jobExpiry:
		return "Pending", false
	case !j.dev.online:
		return "Expired", true
	case age < jobStart:
		return "Pending", false
	case age < jobTakes:
		return "Running", false
	case j.id%12 == 0:
		return "Failure", true
	case j.id%12 == 5:
		return "Warning", true
	}
	return "Success", true
}

func (a *Account) renderJob(c *call, j *job) json.RawMessage {
	status := "active"
	if _, over := j.state(c.now); over {
		status = "completed"
	}
	return object("id", j.id, "uid", j.uid, "name", j.name, "dateCreated", a.date(j.created.UnixMilli()), "status", status)
}

func renderJobComponent(j *job) json.RawMessage {
	variables := j.variables
	if variables == nil {
		variables = []json.RawMessage{}
	}
	return object("uid", j.component.uid, "name", j.component.name, "variables", variables)
}

// jobResult finds the job and device of a results call.
func (a *Account) jobResult(c *call) *job {
	j := a.job(c, c.params["jobUid"])
	if j == nil || a.uid(j.dev) != c.params["deviceUid"] {
		return nil
	}
	return j
}

func (a *Account) jobResults(c *call) reply {
	j := a.jobResult(c)
	if j == nil {
		return c.fail(http.StatusNotFound)
	}
	status, over := j.state(c.now)
	var ran any
	results := []json.RawMessage{}
	if over && status != "Expired" {
		ran = a.date(j.created.Add(jobStart).UnixMilli())
		outcome, warnings := "Success", 0
		switch status {
		case "Failure":
			outcome = "Failure"
		case "Warning":
			warnings = 1
		}
		results = append(results, object("componentUid", j.component.uid, "componentName", j.component.name, "componentStatus", outcome,
			"numberOfWarnings", warnings, "hasStdOut", true, "hasStdErr", status == "Failure"))
	}
	return answer(object("jobUid", j.uid, "deviceUid", a.uid(j.dev), "ranOn", ran, "jobDeploymentStatus", status, "componentResults", results))
}

func (a *Account) jobOutput(c *call, stderr bool) reply {
	j := a.jobResult(c)
	if j == nil {
		return c.fail(http.StatusNotFound)
	}
	list := []json.RawMessage{}
	status, over := j.state(c.now)
	if over && status != "Expired" && (!stderr || status == "Failure") {
		text := j.component.name + ": done\r\n"
		if stderr {
			text = "exit code 1\r\n"
		}
		list = append(list, object("componentUid", j.component.uid, "componentName", j.component.name, "stdData", text))
	}
	return answer(appendValue(nil, list))
}
