// Package activity describes the actions of clients on a server, for its hooks and its audit log.
//
// An [Event] is one such action, as a line of JSON and as variables for a program. A [Reporter]
// makes events from the reports of the protocols, and passes them on.
package activity

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"math"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/shares"
)

// A Kind is the type of an event.
type Kind string

// These are the kinds of events. Hooks can react only to the first six.
const (
	Uploaded   Kind = "uploaded"   // a file was received completely, and has its final name
	Downloaded Kind = "downloaded" // a file, or the requested part of it, was sent completely
	// Failed means that a transfer failed after it began, or could not begin because of a fault on
	// our side.
	Failed      Kind = "failed"
	Login       Kind = "login"        // a user has logged in
	LoginFailed Kind = "login_failed" // a user could not log in
	Boot        Kind = "boot"         // a booting machine has reached another stage of its boot

	Refused Kind = "refused"  // a transfer was refused before it began
	Probed  Kind = "probed"   // only the size of a file was requested, or the client has the file already
	Part    Kind = "part"     // a part of an upload was received, or the complete upload has no name yet
	Changed Kind = "changed"  // a file or a directory was changed in another way, or an attempt to do so failed
	Lost    Kind = "lost"     // the audit log has lost lines; only the audit log contains this event
	LeftOut Kind = "left_out" // lines that strangers caused were left out; only in the audit log
)

// HookKinds are the kinds of events that can trigger a hook.
var HookKinds = []Kind{Uploaded, Downloaded, Failed, Login, LoginFailed, Boot}

// maxName is the maximum length of a name in an event, in bytes. The path of an existing file is
// never longer. Longer names are cut off.
const maxName = 4 << 10

// maxText is the maximum length of a text from a client, other than a name, in bytes.
const maxText = 1 << 10

// An Event is something that a client has done or tried to do. docs/hooks.md describes the fields.
// Fields that do not apply have their zero value.
type Event struct {
	Event     Kind      `json:"event"`
	Time      time.Time `json:"time"`
	Protocol  string    `json:"protocol,omitempty"`
	Result    string    `json:"result,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Peer      string    `json:"peer,omitempty"`
	User      string    `json:"user,omitempty"`
	UserBytes []byte    `json:"user_bytes,omitempty"`
	Credential

	File        string `json:"file,omitempty"`
	FileBytes   []byte `json:"file_bytes,omitempty"`
	Path        string `json:"path,omitempty"`
	PathBytes   []byte `json:"path_bytes,omitempty"`
	To          string `json:"to,omitempty"`
	ToBytes     []byte `json:"to_bytes,omitempty"`
	Stored      string `json:"stored,omitempty"`
	StoredBytes []byte `json:"stored_bytes,omitempty"`
	Cut         bool   `json:"cut,omitempty"`

	Bytes *int64 `json:"bytes,omitempty"`
	Duration
	Status int `json:"status,omitempty"`
	Digest

	Machine

	Error string `json:"error,omitempty"`
	Lines int64  `json:"lines,omitempty"`
}

// Source returns the source whose share of a bound the event uses: its user or, if the user is not
// certain, the address of the peer. It is the zero Source if neither is known.
func (e *Event) Source() shares.Source {
	peer, err := netip.ParseAddrPort(e.Peer)
	addr := peer.Addr()
	if err != nil {
		addr, _ = netip.ParseAddr(e.Peer) // the peers of some events have no port
	}
	if e.Event == LoginFailed { // the peer only claims to be this user
		return shares.SourceOf("", addr)
	}
	return shares.SourceOf(e.User, addr)
}

// CheckPath clears the path if it does not lead to the file of the event any more. A client can put
// another file in its place after the event, or a symbolic link to a file that only a hook's program
// can read. If the file of the event is not known, the path must lead to a regular file without a
// symbolic link.
func (e *Event) CheckPath() {
	if e.Path == "" {
		return
	}
	now, err := os.Lstat(e.Path)
	switch {
	case err != nil, !now.Mode().IsRegular():
	case e.info != nil:
		if os.SameFile(now, e.info) {
			return
		}
	default:
		if real, err := filepath.EvalSymlinks(e.Path); err == nil && real == e.Path {
			return
		}
	}
	e.Path = ""
}

// A Credential says how a user has logged in, or tried to log in.
type Credential struct {
	Method string `json:"method,omitempty"`
	Key    string `json:"key,omitempty"`
}

// A Duration says when an action began, and how long it took.
type Duration struct {
	Began   *time.Time `json:"began,omitempty"`
	Seconds *float64   `json:"seconds,omitempty"`
}

// A Digest identifies the file of an upload. It holds the hash, or the reason why the upload was not
// hashed.
type Digest struct {
	SHA256 *Sum   `json:"sha256,omitempty"`
	Why    string `json:"why,omitempty"`

	info fs.FileInfo // nil if the file is not known
}

// A Machine describes a machine that boots.
type Machine struct {
	MAC   string `json:"mac,omitempty"`
	Arch  string `json:"arch,omitempty"`
	Stage string `json:"stage,omitempty"`
}

// A Sum is a hash in hexadecimal digits. "" means that the hash could not be computed, and becomes
// null in JSON.
type Sum string

// MarshalJSON implements [json.Marshaler].
func (s Sum) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

// took sets the duration of the event, in seconds rounded to milliseconds.
func (e *Event) took(began time.Time, d time.Duration) {
	began, seconds := began.UTC().Truncate(time.Millisecond), math.Round(d.Seconds()*1e3)/1e3
	e.Began, e.Seconds = &began, &seconds
}

// Fruitless reports whether the event had no effect: nothing was moved or changed, and nobody
// logged in. A stranger can cause any number of such events.
func (e *Event) Fruitless() bool {
	if e.Bytes != nil && *e.Bytes > 0 {
		return false
	}
	switch e.Event {
	case Refused, Failed, LoginFailed:
		return true
	case Changed:
		return e.Result != string(meter.Done)
	case Probed: // the other probes are of files that exist
		return e.Operation != "" || e.Status == http.StatusAccepted
	}
	return false
}

// Shorten cuts the texts of a fruitless event to the lengths that logs allow: see
// [Event.Fruitless].
func (e *Event) Shorten() {
	for _, text := range []*string{&e.User, &e.File, &e.Path, &e.To, &e.Stored, &e.Key, &e.Operation} {
		short := linequeue.ShortName(*text)
		e.Cut = e.Cut || short != *text
		*text = short
	}
	short := linequeue.ShortError(e.Error)
	e.Cut = e.Cut || short != e.Error
	e.Error = short
}

// AppendLine appends the event as one line of JSON, including the line feed.
func (e *Event) AppendLine(b []byte) []byte {
	line := *e
	line.Time = e.Time.UTC().Truncate(time.Millisecond)
	for _, t := range []struct {
		text  *string
		bytes *[]byte
		most  int
	}{
		{&line.User, &line.UserBytes, maxText},
		{&line.File, &line.FileBytes, maxName},
		{&line.Path, &line.PathBytes, maxName},
		{&line.To, &line.ToBytes, maxName},
		{&line.Stored, &line.StoredBytes, maxName},
		{&line.Key, nil, maxText},
		{&line.Error, nil, maxText},
		{&line.Operation, nil, maxText},
	} {
		if len(*t.text) > t.most {
			*t.text, line.Cut = (*t.text)[:t.most], true
		}
		if t.bytes != nil && !utf8.ValidString(*t.text) {
			*t.bytes = []byte(*t.text)
		}
	}
	out := bytes.NewBuffer(b)
	_ = console.WriteJSON(out, &line) // no error is possible: a buffer accepts all data, and all types can be encoded
	return out.Bytes()
}

// Variables holds the fields of an event that programs receive as environment variables. The fields
// are bytes because a name can contain any bytes. Fields that do not apply are empty.
type Variables struct {
	Event, Protocol, Result, File, Path, Peer, User, Bytes, SHA256 []byte
}

// Variables returns the fields of the event that programs receive as variables.
func (e *Event) Variables() Variables {
	count, sum := "", ""
	if e.Bytes != nil {
		count = strconv.FormatInt(*e.Bytes, 10)
	}
	if e.SHA256 != nil {
		sum = string(*e.SHA256)
	}
	return Variables{
		[]byte(e.Event), []byte(e.Protocol), []byte(e.Result), []byte(e.File), []byte(e.Path),
		[]byte(e.Peer), []byte(e.User), []byte(count), []byte(sum),
	}
}

// Environ returns the variables as NAME=VALUE. There are always the same nine. A value that is too
// long is cut off. A value that contains a zero byte is left empty, because no variable can contain
// that byte.
func (v *Variables) Environ() (all []string) {
	for _, one := range []struct {
		name  string
		value []byte
		most  int
	}{
		{"HAUL_EVENT", v.Event, maxText},
		{"HAUL_PROTOCOL", v.Protocol, maxText},
		{"HAUL_RESULT", v.Result, maxText},
		{"HAUL_FILE", v.File, maxName},
		{"HAUL_PATH", v.Path, maxName},
		{"HAUL_PEER", v.Peer, maxText},
		{"HAUL_USER", v.User, maxText},
		{"HAUL_BYTES", v.Bytes, maxText},
		{"HAUL_SHA256", v.SHA256, maxText},
	} {
		if bytes.IndexByte(one.value, 0) >= 0 {
			one.value = nil
		}
		all = append(all, one.name+"="+string(one.value[:min(len(one.value), one.most)]))
	}
	return all
}
