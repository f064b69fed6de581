package config

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
)

// A kind is the type of a value in a file.
type kind int

const (
	kindText   kind = iota
	kindBool        // true or false
	kindNumber      // a whole number
	kindEither      // text, or a whole number: a size, a port, an MTU
	kindList        // an array of texts, or one text
	kindTables      // a list like kindList, or a table [[NAME]] for each part
)

// A value parses, stores and shows the value of a setting. It is a [pflag.Value].
type value struct {
	kind kind
	what string // the name of the type, which package pflag shows in the help; "" means "string"
	set  func(text string) error
	get  func() string
	list *items // the parts of a list, for kindList and kindTables; otherwise nil
}

func (v *value) Set(s string) error { return v.set(s) }

func (v *value) String() string {
	if v == nil || v.get == nil {
		return "" // package pflag calls this on a zero value
	}
	return v.get()
}

// Type returns the type in the terms of package pflag.
func (v *value) Type() string { return cmp.Or(v.what, "string") }

func textValue(to *string) *value {
	return &value{
		set: func(s string) error { *to = s; return nil },
		get: func() string { return *to },
	}
}

func boolValue(to *bool) *value {
	return &value{
		kind: kindBool,
		what: "bool",
		set: func(s string) error {
			b, err := strconv.ParseBool(s)
			if err != nil {
				return errors.New("it is true or false")
			}
			*to = b
			return nil
		},
		get: func() string { return strconv.FormatBool(*to) },
	}
}

func intValue(to *int) *value {
	return &value{
		kind: kindNumber,
		what: "int",
		set: func(s string) error {
			n, err := strconv.Atoi(s)
			switch {
			case errors.Is(err, strconv.ErrRange):
				return errors.New("the number is out of range")
			case err != nil:
				return errors.New("it is a whole number")
			}
			*to = n
			return nil
		},
		get: func() string { return strconv.Itoa(*to) },
	}
}

func sizeValue(to *int64) *value {
	size := (*console.ByteSize)(to)
	return &value{kind: kindEither, what: size.Type(), set: size.Set, get: size.String}
}

func timeValue(to *time.Duration) *value {
	return &value{
		what: "duration",
		set: func(s string) error {
			d, err := time.ParseDuration(s)
			if err != nil {
				return errors.New("it is a time with its unit, such as 300ms, 10s or 2m")
			}
			*to = d
			return nil
		},
		get: func() string { return to.String() },
	}
}

// wordValue returns a value that accepts any text that parse accepts. It shows the text that was
// set last, unchanged.
func wordValue[T any](to *T, parse func(string) (T, error)) *value {
	given := ""
	return &value{
		set: func(s string) error {
			v, err := parse(s)
			if err == nil {
				given, *to = s, v
			}
			return err
		},
		get: func() string { return given },
	}
}

func policyValue(to *site.Policy) *value {
	return wordValue(to, func(s string) (site.Policy, error) {
		if s == "" {
			return site.UploadNone, nil
		}
		p, err := site.ParsePolicy(s)
		if err != nil || p == site.UploadNone {
			return p, errors.New("choose create, overwrite or unique")
		}
		return p, nil
	})
}

func perClientValue(to *site.PerClient) *value {
	return wordValue(to, func(s string) (site.PerClient, error) {
		if s == "" {
			return site.NotPerClient, nil
		}
		return site.ParsePerClient(s)
	})
}

// portsValue returns a value that accepts a range of ports, "FIRST-LAST", or one port.
func portsValue(first, last *uint16) *value {
	type ports struct{ first, last uint16 }
	var all ports
	v := wordValue(&all, func(s string) (ports, error) {
		if s == "" {
			return ports{}, nil
		}
		a, b, several := strings.Cut(s, "-")
		if !several {
			b = a
		}
		low, err1 := strconv.ParseUint(a, 10, 16)
		high, err2 := strconv.ParseUint(b, 10, 16)
		if err1 != nil || err2 != nil || low == 0 || low > high {
			return ports{}, errors.New("it is FIRST-LAST, both from 1 to 65535")
		}
		return ports{uint16(low), uint16(high)}, nil
	})
	parse := v.set
	v.kind = kindEither
	v.set = func(s string) error {
		err := parse(s)
		*first, *last = all.first, all.last
		return err
	}
	return v
}

func mtuValue(to *int) *value {
	words := map[int]string{0: "auto", -1: "none"}
	return &value{
		kind: kindEither,
		set: func(s string) error {
			for n, word := range words {
				if s == word {
					*to = n
					return nil
				}
			}
			n, err := strconv.Atoi(s)
			if err != nil || n < settings.MinMTU || n > settings.MaxMTU {
				return settings.ErrMTU
			}
			*to = n
			return nil
		},
		get: func() string {
			if word, ok := words[*to]; ok {
				return word
			}
			return strconv.Itoa(*to)
		},
	}
}

// items holds the parts of a list, as they were set.
type items struct {
	given    []string
	defaults bool                 // given holds the defaults, which the first call of set replaces
	replace  func([]string) error // parses and stores all parts
}

// set appends to a list. The first call replaces the defaults.
func (l *items) set(more ...string) error {
	all := slices.Concat(l.given, more)
	if l.defaults {
		all = more
	}
	if err := l.replace(all); err != nil {
		return err
	}
	l.given, l.defaults = all, false
	return nil
}

// clear removes the defaults from a list.
func (l *items) clear() {
	l.given = nil
	_ = l.replace(nil) // an empty list is always valid
}

// listValue returns a value that is a list. If split is true, commas in the argument of a flag
// separate parts. The function replace parses all parts of the list, and stores them in place of
// the previous ones.
func listValue(split bool, defaults []string, replace func([]string) error) *value {
	l := &items{given: defaults, defaults: true, replace: replace}
	return &value{
		kind: kindList,
		what: "stringSlice",
		list: l,
		get:  func() string { return joinList(l.given) },
		set: func(s string) error {
			if !split {
				return l.set(s)
			}
			parts, err := splitList(s)
			if err != nil {
				return err
			}
			return l.set(parts...)
		},
	}
}

func textsValue(to *[]string) *value {
	return listValue(true, *to, func(all []string) error { *to = all; return nil })
}

// partsValue returns a value that is a list, whose parts are parsed one by one.
func partsValue[T any](to *[]T, split bool, parse func(string) ([]T, error)) *value {
	return listValue(split, nil, func(all []string) error {
		parsed, err := parseParts(all, parse)
		if err == nil {
			*to = parsed
		}
		return err
	})
}

// parseParts parses the parts of a list. If there are several parts, the error names the wrong one.
func parseParts[T any](all []string, parse func(string) ([]T, error)) (parsed []T, err error) {
	for _, s := range all {
		some, err := parse(s)
		switch {
		case err != nil && len(all) > 1:
			return nil, fmt.Errorf("%q: %w", s, err)
		case err != nil:
			return nil, err
		}
		parsed = append(parsed, some...)
	}
	return parsed, nil
}

func networksValue(to *[]netip.Prefix) *value { return partsValue(to, true, site.ParseNetwork) }

func rulesValue(to *[]site.Rule) *value {
	return partsValue(to, false, func(s string) ([]site.Rule, error) {
		rule, err := site.ParseRule(s)
		return []site.Rule{rule}, err
	})
}

func rootsValue(to *[]settings.Root) *value {
	return partsValue(to, false, func(s string) ([]settings.Root, error) {
		root, err := parseRoot(s)
		return []settings.Root{root}, err
	})
}

// parseRoot reads "CLIENT=DIR". CLIENT may contain an equals sign itself, as in "on=:6969", so the
// text is split at the first equals sign that follows a valid CLIENT.
func parseRoot(word string) (settings.Root, error) {
	var first error
	for i := range len(word) {
		if word[i] != '=' {
			continue
		}
		m, err := site.ParseMatch(word[:i])
		if err == nil {
			return settings.Root{For: m, Dir: word[i+1:]}, nil
		}
		if first == nil || strings.HasPrefix(word, "on=") {
			first = err
		}
	}
	if first == nil {
		first = errors.New("it is CLIENT=DIR")
	}
	return settings.Root{}, first
}

// These words stand for several peers in a list of networks.
const (
	AllPeers    = "all"  // in TraceValue: the packets of all peers
	unixProxies = "unix" // in --http-proxy: all peers that connect by a unix socket
)

// proxiesValue returns a value that accepts networks, and "unix" for all peers that connect by a
// unix socket.
func proxiesValue(to *[]netip.Prefix, unix *bool) *value {
	return listValue(true, nil, func(all []string) (err error) {
		networks := slices.DeleteFunc(slices.Clone(all), func(w string) bool { return w == unixProxies })
		*unix = len(networks) < len(all)
		*to, err = parseParts(networks, site.ParseNetwork)
		return err
	})
}

// TraceValue returns the value of a flag that selects the peers whose packets are shown:
// [AllPeers], or addresses and networks.
func TraceValue(to *trace.Setup) pflag.Value { return traceValue(to) }

func traceValue(to *trace.Setup) *value {
	return listValue(true, nil, func(all []string) (err error) {
		to.Text, to.Only = len(all) > 0, nil
		if !slices.Contains(all, AllPeers) {
			to.Only, err = parseParts(all, site.ParseNetwork)
		}
		return err
	})
}

// splitList splits a list at commas. Parts that contain a comma are in double quotes.
func splitList(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	r := csv.NewReader(strings.NewReader(s))
	parts, err := r.Read()
	if _, more := r.Read(); err != nil || more != io.EOF { // the text is invalid, or has a second line
		return nil, errors.New("it is a list with commas, on one line; a part that has a comma or a quote stands in double quotes")
	}
	return parts, nil
}

// joinList joins a list in the form that [splitList] reads.
func joinList(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(parts) // a strings.Builder never fails
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}
