package rmmsim

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxBody is the largest request body that the server reads.
const maxBody = 16 << 20

// stopGrace is how long Serve waits for open requests when it stops.
const stopGrace = 5 * time.Second

// ServeHTTP answers /auth/oauth/token and /api/v2 like the real service.
// Beside them, for tests of a built program and for the curious:
//
//	GET  /_sim/log      all requests so far, one JSON object a line
//	GET  /_sim/counts   what Counts returns
//	POST /_sim/faults   adds faults: YAML as for ParseFaults; replace=true drops the old
func (a *Account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sim/") {
		a.control(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "request body: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	addr, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		addr = r.RemoteAddr
	}
	rep := a.exchange(r.Context(), r, body, scheme+"://"+r.Host, addr)
	if rep.drop {
		panic(http.ErrAbortHandler)
	}
	for name, values := range rep.fullHeader() {
		w.Header()[name] = values
	}
	w.WriteHeader(rep.status)
	if rep.cut {
		_, _ = w.Write(rep.body[:len(rep.body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(rep.body) // a client that has gone needs no answer
}

func (a *Account) control(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	switch r.Method + " " + r.URL.Path {
	case "GET /_sim/log":
		for _, rec := range a.Log() {
			_ = enc.Encode(rec)
		}
	case "GET /_sim/counts":
		_ = enc.Encode(a.Counts())
	case "POST /_sim/faults":
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var faults []Fault
		if err == nil {
			faults, err = ParseFaults(data, "faults")
		}
		if err == nil && r.URL.Query().Get("replace") == "true" {
			a.ClearFaults()
		}
		if err == nil {
			err = a.AddFaults(faults...)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = enc.Encode(map[string]int{"added": len(faults)})
	default:
		http.Error(w, "not found; there are GET /_sim/log, GET /_sim/counts, POST /_sim/faults", http.StatusNotFound)
	}
}

// Serve answers HTTP on the listener until ctx ends, and then lets open
// requests finish for up to five seconds. It closes the listener and returns
// nil when it was told to stop.
func (a *Account) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		err := srv.Shutdown(grace)
		if err != nil {
			err = srv.Close()
		}
		stopped <- err
	})
	err := srv.Serve(ln)
	if stop() { // not told to stop: the listener broke
		return err
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, <-stopped)
}
