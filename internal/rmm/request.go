package rmm

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Request is one API request, named and parametrised but without host, token
// or time. It is JSON-encodable and complete: stored today, it can be sent
// tomorrow.
type Request struct {
	// Op is the name of an operation, or a free call such as
	// "GET /v2/device/7d3c/patches"; see [Resolve].
	Op string `json:"op"`
	// Class is what the job states of a free call; see [Request.Operation]. It
	// means nothing for operations of the catalogue.
	Class Class `json:"class,omitempty"`
	// Path holds a value for each placeholder of the operation's path. Values
	// are plain text; they are escaped when the request is sent.
	Path map[string]string `json:"path,omitempty"`
	// Query holds the query parameters, page and max included.
	Query url.Values `json:"query,omitempty"`
	// Body is the JSON body of a write; nil sends none.
	Body json.RawMessage `json:"body,omitempty"`
}

// Response is the answer to a request that succeeded.
type Response struct {
	Status  int           // 200 to 299
	Body    []byte        // decompressed, valid UTF-8; of a write it may be empty or anything
	Latency time.Duration // from sending the request to the last byte of the body
}

// Operation finds the operation of the request. A free call to a path that the
// catalogue does not know has the class that the request states; one to a known
// path has the class of the catalogue, or unsafe if the request says so.
func (r Request) Operation() (Operation, error) {
	op, err := Resolve(r.Op)
	if _, named := Lookup(r.Op); err != nil || named {
		return op, err
	}
	if op.Method != "GET" && (op.Known == "" && r.Class == ClassIdempotent || r.Class == ClassUnsafe) {
		op.Class = r.Class
	}
	return op, nil
}

// Resolve finds the operation of a request: by name in the catalogue, or, when
// op has the form "METHOD /path", as a free call to a path below /api. A free
// call to a path of the catalogue has the class and the quota of the operation
// there; any other is a read if the method is GET, and unsafe otherwise. Free
// calls have no placeholders, and their answers are not read as pages.
func Resolve(op string) (Operation, error) {
	if found, ok := Lookup(op); ok {
		return found, nil
	}
	method, path, ok := strings.Cut(op, " ")
	if !ok {
		if near := Suggest(op); near != "" {
			return Operation{}, fmt.Errorf("unknown operation %q, did you mean %q?", op, near)
		}
		return Operation{}, fmt.Errorf("unknown operation %q", op)
	}
	return resolveCall(strings.ToUpper(method), strings.TrimSpace(path))
}

func resolveCall(method, path string) (Operation, error) {
	if !slices.Contains([]string{"GET", "POST", "PUT", "DELETE", "PATCH"}, method) {
		return Operation{}, fmt.Errorf("method %q of a call is not one of GET, POST, PUT, DELETE, PATCH", method)
	}
	path = strings.TrimPrefix(path, "/api")
	if err := checkCallPath(path); err != nil {
		return Operation{}, err
	}
	op := Operation{Name: method + " " + path, Method: method, Path: path, Class: ClassUnsafe, Summary: "free call"}
	if method == "GET" {
		op.Class = ClassRead
	}
	for _, known := range catalogue {
		if known.Method == method && known.matches(path) {
			op.Class, op.Throttle, op.Public, op.Known = known.Class, known.Throttle, known.Public, known.Name
			break
		}
	}
	return op, nil
}

// checkCallPath refuses anything that could leave the API of the account.
func checkCallPath(path string) error {
	if !strings.HasPrefix(path, "/v") {
		return fmt.Errorf("path %q of a call does not start with a version such as /v2/", path)
	}
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || u.Scheme != "" || strings.ContainsAny(path, "?#{}\\ ") {
		return fmt.Errorf("path %q of a call is not a plain path; give parameters as query", path)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("path %q of a call has a dot segment", path)
		}
	}
	return nil
}

// matches tells whether a path with values fits the operation's template.
func (o Operation) matches(path string) bool {
	want, have := strings.Split(o.Path, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return false
	}
	for i, part := range want {
		if _, free := placeholder(part); free && have[i] != "" {
			continue
		}
		if part != have[i] {
			return false
		}
	}
	return true
}

// expand fills the placeholders of the operation's path. It returns an escaped
// path below /api.
func (o Operation) expand(values map[string]string) (string, error) {
	parts := strings.Split(o.Path, "/")
	used := 0
	for i, part := range parts {
		name, ok := placeholder(part)
		if !ok {
			continue
		}
		value := values[name]
		// A dot segment would be folded away by servers and proxies, and the
		// request would land on another operation.
		if strings.TrimSpace(value) == "" || value == "." || value == ".." {
			return "", fmt.Errorf("%s: path parameter %s is missing or not usable", o.Name, name)
		}
		parts[i] = url.PathEscape(value)
		used++
	}
	if used != len(values) {
		for name := range values {
			if !slices.Contains(o.PathParams(), name) {
				return "", fmt.Errorf("%s: there is no path parameter %s", o.Name, name)
			}
		}
	}
	return strings.Join(parts, "/"), nil
}
