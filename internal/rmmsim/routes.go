package rmmsim

import (
	"net/url"
	"slices"
	"strings"

	"rmmjob/internal/rmm"
)

// router finds the operation of a path by the catalogue's templates.
type router struct{ routes []route }

type route struct {
	op       rmm.Operation
	segments []string
}

// add keeps the routes in such an order that a literal segment is tried
// before a placeholder: /v2/device/id/7 is not a device with uid "id".
func (r *router) add(op rmm.Operation) {
	r.routes = append(r.routes, route{op, strings.Split(op.Path, "/")})
	slices.SortStableFunc(r.routes, func(x, y route) int {
		for i := range min(len(x.segments), len(y.segments)) {
			px, py := isPlaceholder(x.segments[i]), isPlaceholder(y.segments[i])
			switch {
			case px == py:
			case py:
				return -1
			default:
				return 1
			}
		}
		return 0
	})
}

func isPlaceholder(segment string) bool { return strings.HasPrefix(segment, "{") }

// find gives the operation and the values of its placeholders.
func (r *router) find(method, path string) (rmm.Operation, map[string]string) {
	segments := strings.Split(path, "/")
	for _, route := range r.routes {
		if params, ok := route.match(segments); ok && route.op.Method == method {
			return route.op, params
		}
	}
	return rmm.Operation{}, nil
}

// knows tells whether the path exists with any method.
func (r *router) knows(path string) bool {
	segments := strings.Split(path, "/")
	return slices.ContainsFunc(r.routes, func(route route) bool {
		_, ok := route.match(segments)
		return ok
	})
}

func (r route) match(segments []string) (map[string]string, bool) {
	if len(segments) != len(r.segments) {
		return nil, false
	}
	params := map[string]string{}
	for i, want := range r.segments {
		if !isPlaceholder(want) {
			if segments[i] != want {
				return nil, false
			}
			continue
		}
		v, err := url.PathUnescape(segments[i])
		if err != nil || v == "" {
			return nil, false
		}
		params[strings.Trim(want, "{}")] = v
	}
	return params, true
}
