package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/term"
)

// How often a watched picture is made anew, and how often it is printed where it
// cannot be drawn over.
const (
	watchEvery   = time.Second
	watchPrinted = time.Minute
)

// view draws a picture of something that changes. done tells that it will not change
// any more.
type view func(ctx context.Context, w io.Writer) (done bool, err error)

// watch draws a view every second until it is done or the user stops it. On a terminal
// each picture takes the place of the last; elsewhere a picture is printed when it
// differs from the last, at most once a minute, and the last one in any case. With
// --json nothing is drawn: the one object tells how it ended.
func (a *app) watch(ctx context.Context, draw view) error {
	over := a.drawsOver()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var shown string
	var at time.Time
	lines := 0
	for {
		var picture bytes.Buffer
		done, err := draw(ctx, &picture)
		if ctx.Err() != nil {
			return nil // the user has seen enough
		}
		if err != nil {
			return err
		}
		text := picture.String()
		switch {
		case a.json:
		case over:
			if lines > 0 {
				fmt.Fprintf(a.stdout, "\x1b[%dA\x1b[J", lines)
			}
			fmt.Fprint(a.stdout, text)
			lines = strings.Count(text, "\n")
		case text != shown && (done || at.IsZero() || a.now().Sub(at) >= watchPrinted):
			if !at.IsZero() {
				fmt.Fprintln(a.stdout)
			}
			fmt.Fprint(a.stdout, text)
			shown, at = text, a.now()
		}
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// drawsOver tells whether standard output is a terminal on which the cursor can be
// moved. The old console of Windows prints the codes instead.
func (a *app) drawsOver() bool {
	f, ok := a.env.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || a.progress == "plain" || a.progress == "none" {
		return false
	}
	return runtime.GOOS != "windows" || a.getenv("WT_SESSION") != "" || a.getenv("TERM") != ""
}
