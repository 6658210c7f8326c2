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
//   - Writes: any 2xx is a success, with or without a body; only a web page is
//     not, because then a proxy or a maintenance page has answered.
//   - Numbers stay as the server wrote them; nothing is decoded to floats.
//
// The access token goes to the account's own origin only. It, the key, the
// secret and the values of a request's body appear in no error, not even where
// the server repeats them in its message.
package rmm
