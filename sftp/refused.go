package sftp

import (
	"fmt"
	"strings"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A requestSet is a set of request types and extensions.
type requestSet struct {
	types      uint32 // bit n is set if the set contains the requests of type n; EXTENDED has no bit
	extensions wire.Extensions
}

// firstType and lastType are the first and last type that clients may send, apart from INIT and
// EXTENDED.
const (
	firstType = wire.TypeOpen
	lastType  = wire.TypeSymlink
)

func (r requestSet) has(q *wire.Request) bool {
	if q.Type == wire.TypeExtended {
		return r.extensions.Has(q.Extension)
	}
	return r.types&(1<<q.Type) != 0
}

// Requests returns the names of all requests, in the spelling of the options -P and -p of OpenSSH's
// sftp-server: the requests of version 3, such as "open", and the extensions, such as
// "posix-rename".
func Requests() []string {
	var names []string
	for t := firstType; t <= lastType; t++ {
		names = append(names, typeName(t))
	}
	for _, p := range wire.AllExtensions.Pairs() {
		names = append(names, extensionName(p.Name))
	}
	return names
}

func typeName(t wire.Type) string { return strings.ToLower(t.String()) }

// extensionName returns the name of an extension without its domain.
func extensionName(name string) string {
	name, _, _ = strings.Cut(name, "@")
	return name
}

// requestsNamed returns the set of the requests with the given names. Extensions go by their name
// without the domain, as in [Requests]. An unknown name is an error.
func requestsNamed(names []string) (r requestSet, err error) {
	for _, name := range names {
		found := false
		for t := firstType; t <= lastType; t++ {
			if name == typeName(t) {
				r.types, found = r.types|1<<t, true
			}
		}
		for e := range wire.AllExtensions.All() {
			if name == extensionName(e.String()) {
				r.extensions, found = r.extensions.With(e), true
			}
		}
		if !found {
			return requestSet{}, fmt.Errorf("there is no request %q", name)
		}
	}
	return r, nil
}
