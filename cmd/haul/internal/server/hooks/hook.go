// Package hooks runs programs and posts to URLs when clients have done something.
//
// A confined server may neither run programs nor connect to other machines. So [Start], which is
// called before the confinement, starts two more processes of this program:
//
//	server      has a [Queue] of events, and sends each to the helper when that has room
//	supervisor  gives up its rights; then it starts the helper, starts it again if it dies, and
//	            kills it if the server reports that it hangs
//	helper      runs programs and posts, at most maxRunning at a time
//
// The helper has no sockets except maxRunning lines, which are connections to the server: one for
// each hook that can run at a time. For each helper, the supervisor creates new lines, and passes
// the server's ends of them to the server. So a line that is closed means that the helper has
// exited. The supervisor exits when the server exits. Then the helper exits too, once the running
// hooks are done.
package hooks

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/system/subprocess"
)

// These constants bound hooks.
const (
	// DefaultTimeout is how long a hook may take if its Timeout is 0.
	DefaultTimeout = 30 * time.Second

	// MaxTimeout is the largest [Hook].Timeout.
	MaxTimeout = 10 * time.Minute

	// MaxHooks is the largest number of hooks.
	MaxHooks = 32

	maxWords = 64      // maximum number of words on the command line of a program
	maxWord  = 4 << 10 // maximum length of each word, and of a URL, in bytes
	minKey   = 16      // the minimum length of a key, in bytes
	maxKey   = 4 << 10 // the maximum length of a key, in bytes
	minLimit = 1 * time.Second
)

// programDir is the working directory of programs.
const programDir = "/"

// Supported reports whether hooks work on this system.
const Supported = runtime.GOOS != "windows"

// A Hook names a program to run, or a URL to post to, when events of some kinds occur.
type Hook struct {
	On      []activity.Kind // the kinds of events that trigger the hook
	Run     []string        // the path of a program and its arguments; either Run or URL is set
	URL     string          // the URL that the event is posted to
	Key     string          // the file with the key that signs posts; "" means no signature
	Timeout time.Duration   // limit for a run, including all tries to post; 0 means DefaultTimeout
}

// Fields are the names of the fields of a hook, in the order of [Hook.String].
var Fields = []string{"on", "timeout", "key", "url", "run"}

// IsList reports whether a field is a list.
func IsList(field string) bool { return field == "on" || field == "run" }

// Set sets the named field to one value, or to several values if the field is a list.
func (h *Hook) Set(field string, parts ...string) error {
	if slices.ContainsFunc(parts, func(p string) bool { return len(p) > maxWord || strings.IndexByte(p, 0) >= 0 }) {
		return fmt.Errorf("a word has at most %d bytes, and no zero byte", maxWord)
	}
	switch field {
	case "on":
		return h.setKinds(parts)
	case "run":
		return h.setProgram(parts)
	}
	if len(parts) != 1 || parts[0] == "" {
		return errors.New("it is one text")
	}
	switch text := parts[0]; field {
	case "key":
		h.Key = text
	case "timeout":
		d, err := time.ParseDuration(text)
		if err != nil || d < minLimit || d > MaxTimeout {
			return fmt.Errorf("it is a time with its unit, from %v to %v", minLimit, MaxTimeout)
		}
		h.Timeout = d
	case "url":
		u, err := url.Parse(text)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
			return errors.New("it is a URL of http or https without a password; key signs what is posted")
		}
		h.URL = text
	default:
		return fmt.Errorf("a hook consists of %s", strings.Join(Fields, ", "))
	}
	return nil
}

func (h *Hook) setKinds(parts []string) error {
	h.On = nil
	for _, p := range parts {
		if !slices.Contains(activity.HookKinds, activity.Kind(p)) {
			return fmt.Errorf("there is no event %q; they are %s", p, kindNames())
		}
		if kind := activity.Kind(p); !slices.Contains(h.On, kind) {
			h.On = append(h.On, kind)
		}
	}
	return nil
}

func kindNames() string {
	var names []string
	for _, k := range activity.HookKinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

func (h *Hook) setProgram(words []string) error {
	switch {
	case len(words) == 0 || words[0] == "":
		return errors.New("the program is missing")
	case len(words) > maxWords:
		return fmt.Errorf("a program has at most %d words with its name", maxWords)
	case !filepath.IsAbs(words[0]):
		return fmt.Errorf("%q: the program needs its whole path, such as /usr/local/bin/%s; there is no shell that would find it", words[0], filepath.Base(words[0]))
	}
	h.Run = words
	return nil
}

// Check returns an error if a hook is incomplete, or has fields that exclude each other.
func (h *Hook) Check() error {
	switch {
	case len(h.On) == 0:
		return fmt.Errorf("a hook needs on, the events that it is for: %s", kindNames())
	case len(h.Run) == 0 && h.URL == "":
		return errors.New("a hook needs run, a program, or url, where events are posted to")
	case len(h.Run) > 0 && h.URL != "":
		return errors.New("a hook has run or url; write two hooks for both")
	case h.Key != "" && h.URL == "":
		return errors.New("key signs what is posted to a url, but the hook has no url")
	}
	return nil
}

// Parse reads a hook in the form that [Hook.String] writes: FIELD=VALUE, separated by spaces. All
// words after run= belong to the program. Quotes and backslashes work as in a shell, but no
// variables or patterns are expanded.
func Parse(text string) (h Hook, err error) {
	words, err := subprocess.Split(text)
	if err != nil {
		return h, err
	}
	var seen []string
	for i, word := range words {
		field, value, ok := strings.Cut(word, "=")
		if !ok || !slices.Contains(Fields, field) {
			return h, fmt.Errorf("%q is none of %s=; run= comes last, with the arguments of its program behind it", word, strings.Join(Fields, "=, "))
		}
		if slices.Contains(seen, field) {
			return h, fmt.Errorf("%s= is there twice; write a hook for each", field)
		}
		seen = append(seen, field)
		parts := []string{value}
		switch field {
		case "on":
			parts = strings.Split(value, ",")
		case "run":
			parts = append(parts, words[i+1:]...)
		}
		if err := h.Set(field, parts...); err != nil {
			return h, fmt.Errorf("%s: %w", field, err)
		}
		if field == "run" {
			break
		}
	}
	return h, h.Check()
}

// Get returns the parts of a field, in the form that [Hook.Set] accepts. It returns nil if the
// field is not set.
func (h *Hook) Get(field string) (parts []string) {
	switch field {
	case "on":
		for _, k := range h.On {
			parts = append(parts, string(k))
		}
		return parts
	case "run":
		return h.Run
	case "timeout":
		if h.Timeout > 0 {
			return []string{h.Timeout.String()}
		}
	case "key":
		return given(h.Key)
	case "url":
		return given(h.URL)
	}
	return nil
}

func given(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// String returns the hook in the form that [Parse] reads.
func (h *Hook) String() string {
	var words []string
	for _, field := range Fields {
		parts := h.Get(field)
		switch {
		case len(parts) == 0:
			continue
		case field == "on":
			parts = []string{strings.Join(parts, ",")}
		}
		words = append(words, field+"="+quote(parts[0]))
		for _, more := range parts[1:] {
			words = append(words, quote(more))
		}
	}
	return strings.Join(words, " ")
}

// quote returns the word in a form that [subprocess.Split] turns back into the same word. It adds
// quotes only if they are needed.
func quote(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\r'\"\\") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Target returns the hook's target for messages: the program, or the server that the hook posts to.
// It leaves out the path of the URL, because at chat services the path is a secret.
func (h *Hook) Target() string {
	if len(h.Run) > 0 {
		return h.Run[0]
	}
	u, err := url.Parse(h.URL)
	if err != nil {
		return "url"
	}
	return u.Scheme + "://" + u.Host
}

// Files returns the program, and the files and directories among its arguments, also those in an
// argument such as --rules=FILE. It returns nil for a hook that posts.
func (h *Hook) Files() (paths []string) {
	for i, word := range h.Run {
		_, value, _ := strings.Cut(word, "=")
		for _, path := range []string{word, value} {
			if !filepath.IsAbs(path) {
				path = filepath.Join(programDir, path)
			}
			if _, err := os.Lstat(path); i == 0 && path == word || err == nil && path != programDir {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Summary returns a sentence that says which events trigger the hook, and what the hook does.
func (h *Hook) Summary() string {
	does := ": posts to "
	if len(h.Run) > 0 {
		does = ": runs "
	}
	return strings.Join(h.Get("on"), ", ") + does + h.Target()
}

// wants reports whether events of a kind trigger the hook.
func (h *Hook) wants(k activity.Kind) bool { return slices.Contains(h.On, k) }

func (h *Hook) timeout() time.Duration {
	if h.Timeout > 0 {
		return h.Timeout
	}
	return DefaultTimeout
}
