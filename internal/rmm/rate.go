package rmm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"
)

// What is taken for values that a request-rate answer lacks, from the API's
// help: a window of a minute, and slowing down at 90 % of a limit.
const (
	defaultWindow = 60 * time.Second
	defaultCutOff = 0.9
	maxWindow     = 24 * time.Hour
)

// RateStatus is what the server says about the account's quotas. The counts
// are of all users of the account.
type RateStatus struct {
	Window     time.Duration // length of the sliding window; 60 s if the server does not say
	AccountUID string        // a short code, not a GUID; may be empty
	Count      int           // reads inside the window; everything, for accounts without write quotas
	Limit      int           // limit of Count
	CutOff     float64       // share of a limit above which the server slows down, in (0,1]; 0.9 if it does not say
	WriteCount *int          // writes inside the window; nil for accounts without write quotas
	WriteLimit *int          // limit of WriteCount; nil for accounts without write quotas
	// Operations holds the quotas of single writes by the server's names, which
	// are data, not an enumeration. It may be empty.
	Operations map[string]OperationRate
}

// OperationRate is the quota of one write operation.
type OperationRate struct {
	Limit int // requests per window
	Count int // requests inside the window
}

// RequestRate asks for the account's quotas. The request counts as a read.
func (c *Client) RequestRate(ctx context.Context) (RateStatus, error) {
	const op = "request-rate"
	res, err := c.Do(ctx, Request{Op: op})
	if err != nil {
		return RateStatus{}, err
	}
	status, err := ParseRateStatus(res.Body)
	if err != nil {
		return RateStatus{}, &Error{
			Op: op, Kind: KindProtocol, Status: res.Status, JSON: true, Sent: true,
			Message: c.redactor(nil).clean(err.Error()), Err: err,
		}
	}
	return status, nil
}

// ParseRateStatus reads the answer of the operation request-rate. Fields may be
// absent or null; only the account's limit must be there and positive, because
// without it there is nothing to go by.
func ParseRateStatus(body []byte) (RateStatus, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(bytes.TrimSpace(body), &fields); err != nil || fields == nil {
		return RateStatus{}, errors.New("request rate: expected an object")
	}
	count := func(name string) *int { return countField(fields[name]) }
	limit := count("accountRateLimit")
	if limit == nil || *limit == 0 {
		return RateStatus{}, errors.New("request rate: accountRateLimit missing")
	}
	s := RateStatus{
		Window: defaultWindow, Limit: *limit, CutOff: defaultCutOff,
		WriteCount: count("accountWriteCount"), WriteLimit: count("accountWriteRateLimit"),
		Operations: map[string]OperationRate{},
	}
	if n := count("accountCount"); n != nil {
		s.Count = *n
	}
	if n := count("slidingTimeWindowSizeSeconds"); n != nil && *n > 0 {
		s.Window = min(time.Duration(min(*n, int(maxWindow/time.Second)))*time.Second, maxWindow)
	}
	if f, ok := ratio(fields["accountCutOffRatio"]); ok {
		s.CutOff = f
	}
	_ = json.Unmarshal(fields["accountUid"], &s.AccountUID) // of any other type it is of no use

	var operations map[string]json.RawMessage
	_ = json.Unmarshal(fields["operationWriteStatus"], &operations) // absent, null, or of a shape nobody has seen
	for name, raw := range operations {
		var entry map[string]json.RawMessage
		if json.Unmarshal(raw, &entry) != nil || entry == nil {
			continue
		}
		var rate OperationRate
		if n := countField(entry["limit"]); n != nil {
			rate.Limit = *n
		}
		if n := countField(entry["count"]); n != nil {
			rate.Count = *n
		}
		s.Operations[name] = rate
	}
	return s, nil
}

// countField reads a number of requests: nil when absent, null or no number,
// otherwise between 0 and 2^31-1.
func countField(raw json.RawMessage) *int {
	n, ok, err := wholeNumber(raw)
	if err != nil || !ok {
		return nil
	}
	clamped := int(min(max(n, 0), math.MaxInt32))
	return &clamped
}

// ratio reads a share in (0,1].
func ratio(raw json.RawMessage) (float64, bool) {
	f, err := strconv.ParseFloat(string(bytes.Trim(raw, `" `)), 64)
	return f, err == nil && f > 0 && f <= 1
}
