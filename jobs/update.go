package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"rmmjob/internal/rmm"
)

// UpdateWork is the work of an update job: it reads the targets in bulk, makes the
// plan, and sends one write for each target that must change.
type UpdateWork struct {
	job *Job
	set Settings
}

// NewUpdateWork returns the work of a loaded update job.
func NewUpdateWork(job *Job, set Settings) *UpdateWork { return &UpdateWork{job: job, set: set} }

const (
	targetsPrefix  = "targets/"
	sitesPrefix    = "sites/"
	settingsPrefix = "settings/"
	applyPrefix    = "apply/"
)

func (u *UpdateWork) op() operation { return operationOf(u.job.Update.Operation.Name) }

// wholeList is a list of the account that stands alone.
func wholeList(prefix, name string) list {
	op, _ := rmm.Lookup(name)
	return list{op: op, id: prefix + op.Name, again: "auto"}
}

// variablesOf is the list of the variables of a site.
func variablesOf(prefix, site string) list {
	l := wholeList(prefix, "site-variables")
	l.path = map[string]string{"siteUid": site}
	l.id += "/" + url.PathEscape(site)
	l.optional, l.again = true, "never"
	return l
}

// settingsOf is the one read of the settings of a site.
func settingsOf(prefix, site string) Item {
	return Item{
		Key:     prefix + url.PathEscape(site),
		Request: rmm.Request{Op: "site-settings", Path: map[string]string{"siteUid": site}},
	}
}

// lists are the lists of the account that the plan is made from, those of single
// sites apart.
func (u *UpdateWork) lists() []list {
	all := u.ownLists()
	if u.job.Update.Rows.From != nil && !slices.ContainsFunc(all, u.isRowsList) {
		all = append(all, u.rowsList())
	}
	return all
}

// ownLists are the lists that the operation needs, wherever its rows come from.
func (u *UpdateWork) ownLists() []list {
	all := u.targetLists()
	if u.op().effect == starts {
		all = append(all, wholeList(componentsPrefix, "components"))
	}
	return all
}

// targetLists are the lists that targets are found in.
func (u *UpdateWork) targetLists() []list {
	op := u.op()
	switch {
	case op.effect == calls:
		return nil
	case op.ofSites() || u.job.Update.besideList() == byMAC:
		return []list{wholeList(parentsPrefix, "sites")}
	}
	all := []list{wholeList(targetsPrefix, subjects[op.on].list)}
	if op.effect == moves {
		all = append(all, wholeList(sitesPrefix, "sites"))
	}
	return all
}

// isRowsList tells whether a list that is read whole has the rows of the input.
func (u *UpdateWork) isRowsList(l list) bool {
	from := u.job.Update.Rows.From
	return l.op.Name == from.From.Name && len(from.Filter) == 0
}

// rowsList is the list that the rows are selected from: one that is read anyway,
// or one of its own.
func (u *UpdateWork) rowsList() list {
	all := u.ownLists()
	if i := slices.IndexFunc(all, u.isRowsList); i >= 0 {
		return all[i]
	}
	from := u.job.Update.Rows.From
	l := wholeList(rowsPrefix, from.From.Name)
	l.query = from.Filter
	return l
}

// twice tells whether what is read first decides what must be read beside it.
func (u *UpdateWork) twice() bool { return u.op().ofSites() || u.job.Update.besideList() != "" }

// Start returns the first stage and its items.
func (u *UpdateWork) Start() (string, []Item) {
	stage := StageRead
	if u.twice() {
		stage = StageParents
	}
	var first []Item
	for _, l := range u.lists() {
		first = append(first, l.first(1, u.set.pageSize()))
	}
	return stage, first
}

// Follow returns the pages that an answer adds; a write adds nothing.
func (u *UpdateWork) Follow(it Item, body []byte) ([]Item, error) {
	return followRead(it, body)
}

// followRead returns the pages that an answer adds; a write adds nothing.
func followRead(it Item, body []byte) ([]Item, error) {
	if op, ok := rmm.Lookup(it.Request.Op); !ok || op.IsWrite() {
		return nil, nil // a call or a write
	}
	return followPage(it, body)
}

// Settle makes the plan once the targets are read, and ends the run once the
// writes are sent and those whose answers were lost are looked up. Its error is
// Errors when the input has a fault, a *GuardError when the plan goes too far,
// and an *IncompleteError when the targets could not be read whole.
func (u *UpdateWork) Settle(ctx context.Context, stage string, a Answers) (Step, error) {
	switch {
	case stage == StageParents && u.twice():
		if step, again, err := settleReads(ctx, stage, a, u.lists(), u.set.pageSize()); err != nil || again {
			return step, err
		}
		return u.spread(ctx, a)
	case stage == StageRead:
		return u.plan(ctx, a)
	}
	step, err := u.apply().settle(ctx, stage, a)
	u.set.looked(stage, step)
	return step, err
}

// apply settles the stages after the plan.
func (u *UpdateWork) apply() applier {
	return applier{set: u.set, verify: u.job.Update.Verify, guard: u.job.Guard}
}

// sitesOfRows returns the uids of the sites that the rows of the input name, in
// the order of their uids.
func (u *UpdateWork) sitesOfRows(ctx context.Context, a Answers, sites *siteIndex) ([]string, error) {
	uids := map[string]bool{}
	err := u.eachKey(ctx, a, func(key string) {
		if found := sites.all(u.job.Update.Match[0].Field, splitKey(key, 2)[0]); len(found) == 1 {
			uids[found[0]] = true
		}
	})
	return slices.Sorted(maps.Keys(uids)), err
}

// spread begins the read stage with what must be read of each site that the rows
// name, and of no other.
func (u *UpdateWork) spread(ctx context.Context, a Answers) (Step, error) {
	if u.job.Update.besideList() != "" {
		return u.spreadKeys(ctx, a)
	}
	sites, err := indexSites(elements(ctx, a, parentsPrefix))
	if err != nil {
		return Step{}, err
	}
	uids, err := u.sitesOfRows(ctx, a, sites)
	if err != nil {
		return Step{}, err
	}
	return Step{Stage: StageRead, Items: func(yield func(Item) bool) {
		for _, uid := range uids {
			it := settingsOf(settingsPrefix, uid)
			if !u.op().proxy {
				it = variablesOf(targetsPrefix, uid).first(1, u.set.pageSize())
			}
			if !yield(it) {
				return
			}
		}
	}}, nil
}

// plan makes the plan once everything is read.
func (u *UpdateWork) plan(ctx context.Context, a Answers) (Step, error) {
	op := u.op()
	src := sources{targets: elements(ctx, a, targetsPrefix)}
	lists := u.lists()
	var err error
	if beside := u.job.Update.besideList(); beside != "" {
		lists = nil // the serial numbers are no list
		if beside == byMAC {
			lists, err = u.interfaces(ctx, a)
			lists = append(lists, wholeList(targetsPrefix, "devices"))
		}
		if err == nil {
			src.keys, err = keysBeside(ctx, a, beside, "")
		}
		if err != nil {
			return Step{}, err
		}
	}
	switch {
	case op.effect == moves && u.job.Update.besideList() == byMAC:
		src.sites, err = indexSites(elements(ctx, a, parentsPrefix))
	case op.effect == moves:
		src.sites, err = indexSites(elements(ctx, a, sitesPrefix))
	case op.nameSetting(u.job.Update.Set) >= 0:
		src.sites, err = indexSites(src.targets)
	case op.ofSites():
		lists = nil
		src.sites, err = indexSites(elements(ctx, a, parentsPrefix))
	}
	if err != nil {
		return Step{}, err
	}
	switch {
	case op.proxy:
		src.targets = elements(ctx, a, parentsPrefix)
		src.settings, err = settingsRead(ctx, a, settingsPrefix)
	case op.on == aSiteVariable:
		var uids []string
		if uids, err = u.sitesOfRows(ctx, a, src.sites); err != nil {
			return Step{}, err
		}
		for _, uid := range uids {
			lists = append(lists, variablesOf(targetsPrefix, uid))
		}
		src.listed, err = listedSites(ctx, a, targetsPrefix)
	}
	if err != nil {
		return Step{}, err
	}
	if step, again, err := settleReads(ctx, StageRead, a, lists, u.set.pageSize()); err != nil || again {
		return step, err
	}
	if op.effect == resolves {
		beside, err := u.alertsBeside(ctx, a)
		if err != nil {
			return Step{}, err
		}
		if len(beside) > 0 {
			return Step{Stage: StageRead, Items: slices.Values(beside), Note: alertsNote(len(beside))}, nil
		}
		src.targets = withAlerts(ctx, a, src.targets)
	}
	if op.effect == starts {
		if src.components, err = readComponents(ctx, a); err != nil {
			return Step{}, err
		}
	}
	p, err := u.makePlan(ctx, a, src)
	if err != nil {
		return Step{}, err
	}
	step := Step{Items: p.items(), Rows: p.planRows(), Plan: p.counts, Note: p.note()}
	if err := p.guard(); err != nil && !errors.As(err, &step.Guard) {
		return Step{}, err
	}
	return u.apply().begin(step), nil
}

// listedSites tells of which sites the variables could be listed.
func listedSites(ctx context.Context, a Answers, prefix string) (map[string]bool, error) {
	listed := map[string]bool{}
	for ans, err := range a.Answers(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if ans.OK {
			listed[ans.Request.Path["siteUid"]] = true
		}
	}
	return listed, nil
}

// settingsRead gives the settings of sites by uid. A site that is gone meanwhile
// has none.
func settingsRead(ctx context.Context, a Answers, prefix string) (map[string]json.RawMessage, error) {
	settings := map[string]json.RawMessage{}
	for ans, err := range a.Answers(ctx, prefix) {
		switch {
		case err != nil:
			return nil, err
		case ans.OK:
			settings[ans.Request.Path["siteUid"]] = ans.Body
		case ans.HTTP != http.StatusNotFound && ans.HTTP != http.StatusBadRequest:
			return nil, &IncompleteError{Message: "the settings of a site could not be read: " + ans.Reason}
		}
	}
	return settings, nil
}
