package main

import (
	"fmt"

	"rmmjob/checkpoint"
)

// stateWords are the states of runs as they fit into a sentence: "it is …".
var stateWords = map[string]string{
	string(checkpoint.RunPlanned):     "a plan that waits",
	string(checkpoint.RunRunning):     "at work",
	string(checkpoint.RunStopped):     "stopped",
	string(checkpoint.RunThrottled):   "stopped by the limits of the service",
	string(checkpoint.RunAuth):        "stopped by a refused login or a missing right",
	string(checkpoint.RunUnreachable): "stopped, since the service could not be reached",
	string(checkpoint.RunLocalIO):     "stopped by a local file",
	string(checkpoint.RunAborted):     "aborted",
	string(checkpoint.RunSuperseded):  "superseded by a newer one",
	string(checkpoint.RunOK):          "done",
	string(checkpoint.RunPartial):     "done in part",
	string(checkpoint.RunInDoubt):     "done, with writes in doubt",
	string(checkpoint.RunGuard):       "stopped by a guard",
	string(checkpoint.RunIncomplete):  "incomplete",
	string(checkpoint.RunInternal):    "stopped by a fault of the program",
	stateCrashed:                      "cut off: its process died",
	statePaused:                       "paused",
	stateWaiting:                      "waiting for a decision about the rest",
}

// stateWord is the state of a run in a sentence.
func stateWord(state string) string {
	if word := stateWords[state]; word != "" {
		return word
	}
	return state
}

// stateText is the state of a run by its name, with the exit code if it has ended.
func (r runInfo) stateText() string {
	if r.Finished == nil {
		return r.State
	}
	return fmt.Sprintf("%s (exit %d)", r.State, r.ExitCode)
}
