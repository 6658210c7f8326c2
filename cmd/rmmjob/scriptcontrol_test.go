package main

import (
	"regexp"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// controlCommands are the commands of scripts in which two processes are at work.
var controlCommands = map[string]func(*testscript.TestScript, bool, []string){
	"count":  scriptCount,
	"frozen": scriptFrozen,
	"thawed": scriptThawed,
	"until":  scriptUntil,
}

// scriptUntil runs a program until its output matches, for half a minute at most:
//
//	until REGEXP PROGRAM [args]
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP PROGRAM [args]")
	}
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_ = ts.Exec(args[1], args[2:]...) // that it fails is no match
		if re.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %s in\n%s%s", args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}

// scriptCount checks how many lines of a file match:
//
//	count N FILE REGEXP
func scriptCount(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 3, "count N FILE REGEXP")
	re, err := regexp.Compile("(?m)" + args[2])
	ts.Check(err)
	text := ts.ReadFile(args[1])
	if n := len(re.FindAllString(text, -1)); strconv.Itoa(n) != args[0] {
		ts.Fatalf("%d lines match %s, want %s, in\n%s", n, args[2], args[0], text)
	}
}

// scriptFrozen checks that no request reaches the account for two and a half seconds.
func scriptFrozen(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 0, "frozen")
	before := len(accountOf(ts).Log())
	time.Sleep(2500 * time.Millisecond)
	if n := len(accountOf(ts).Log()); n != before {
		ts.Fatalf("%d requests although it is paused", n-before)
	}
}

// scriptThawed checks that a request reaches the account within two seconds.
func scriptThawed(ts *testscript.TestScript, neg bool, args []string) {
	needArgs(ts, neg, args, 0, "thawed")
	before := len(accountOf(ts).Log())
	for deadline := time.Now().Add(2 * time.Second); len(accountOf(ts).Log()) == before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("no request within two seconds")
		}
	}
}
