// Command rmmjob runs mass reads and mass changes against the Datto RMM API
// and brings every one of them to an honest end.
//
// A job is a YAML file. rmmjob turns it into work items, one API request
// each, keeps them in a local database and drains them through one adaptive
// throttle. What is interrupted is continued by running the same job again.
//
// How the command is put together:
//
//   - main.go holds main, the dispatch from a verb to its function and the
//     two stop signals.
//   - verbs.go is the table of verbs; every verb has a file of its own, which
//     reads from top to bottom: flags, checks, work, output.
//   - exit.go is the table of exit codes and the one place that maps an error
//     to a code and to hints.
//   - result.go is the final result, which --json prints as one object.
//   - control.go is how a run listens to other processes and live.go what it
//     tells them; ask.go is the other side, watch.go draws what changes.
//   - settings.go is the table of settings; flags.go, config.go and the
//     environment are its layers. Every value remembers where it came from.
//   - account.go, state.go and throttle.go open what a verb needs: the
//     account, the state folder with its lock, the limiter's configuration.
//
// Standard output carries data or the final result only. Progress, messages
// and hints go to standard error. The command never prompts.
package main
