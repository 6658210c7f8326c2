// Package rmm talks to version 2 of the Datto RMM REST API: a catalogue of all
// its operations, and a client that sends exactly one API request per call.
//
// The catalogue ([Operations], [Lookup]) is the one place that knows the method
// and path of an operation, the shape of its answer, which quota it draws on,
// and what may be done after a lost answer ([Class]).
//
// A [Client] logs in, renews its token ahead of expiry, sends a [Request] and
// judges the answer. It never retries, pages or paces: these decisions need
// knowledge of the whole run, so the caller makes them from the answer or from
// the [*Error], whose [Kind] and Sent say what happened without a look at its
// text.
//
//   - Lists: [ParsePage] opens the envelope of a page. It is strict about the
//     envelope, because an absent array is not an empty one, and leaves the
//     elements alone, because the server's data does not keep to its own
//     description. [NextQuery] gives the query of the next page.
//   - Writes: any 2xx is a success, and the body is whatever the server sent.
//   - Numbers stay as the server wrote them; nothing is decoded to floats.
//
// The access token goes to the account's own origin only. It, the key and the
// secret appear in no error; values of requests do not either, unless the
// server puts them in its own message.
package rmm
