package activity

import (
	"errors"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// Each transfer makes one event of the right kind; hooks get the kinds that they can choose.
func TestEnded(t *testing.T) {
	type test struct {
		what  string
		ended meter.Ended
		kind  Kind
		hook  bool
	}
	of := func(write bool, result meter.Result, detail any) meter.Ended {
		return meter.Ended{Info: meter.Info{Protocol: meter.HTTP, Write: write, Name: "n", Peer: netip.MustParseAddrPort("192.0.2.1:5")}, End: meter.End{Result: result, Detail: detail}}
	}
	request := func(method string, status int) *web.Exchange { return &web.Exchange{Method: method, Status: status} }
	for _, one := range []test{
		{"upload", of(true, meter.Done, nil), Uploaded, true},
		{"download", of(false, meter.Done, nil), Downloaded, true},
		{"download without a last ACK", of(false, meter.Unconfirmed, nil), Downloaded, true},
		{"size", of(false, meter.Probe, nil), Probed, false},
		{"missing", of(false, meter.Refused, nil), Refused, false},
		{"failed", of(false, meter.Failed, nil), Failed, true},
		{"gone", of(true, meter.PeerSilent, nil), Failed, true},
		{"GET", of(false, meter.Done, request(http.MethodGet, http.StatusOK)), Downloaded, true},
		{"range", of(false, meter.Done, request(http.MethodGet, http.StatusPartialContent)), Downloaded, true},
		{"not modified", of(false, meter.Done, request(http.MethodGet, http.StatusNotModified)), Probed, false},
		{"PUT", of(true, meter.Done, request(http.MethodPut, http.StatusCreated)), Uploaded, true},
		{"how much is there", of(true, meter.Done, request(http.MethodPut, http.StatusAccepted)), Probed, false},
		{"read by a handle for both", of(true, meter.Done, &sftp.Transfer{Read: true, Write: true}), Downloaded, true},
		{"an empty file", of(true, meter.Done, &sftp.Transfer{Write: true}), Uploaded, true},
	} {
		var audit, hook []Event
		r := &Reporter{Audit: func(e Event) { audit = append(audit, e) }, Hook: func(e Event) { hook = append(hook, e) }}
		r.Ended(one.ended)
		if len(audit) != 1 || audit[0].Event != one.kind || audit[0].Peer != "192.0.2.1:5" || (len(hook) == 1) != one.hook {
			t.Errorf("%s: %+v, %d hooks", one.what, audit, len(hook))
		}
	}
}

// An HTTP request that sends no file becomes an event for what it requests.
func TestRequested(t *testing.T) {
	(*Reporter)(nil).Requested(meter.HTTP, &web.Exchange{}, meter.Done)
	for _, c := range []struct {
		method    string
		status    int
		result    meter.Result
		kind      Kind
		operation string
	}{
		{http.MethodDelete, http.StatusNoContent, meter.Done, Changed, "remove"},
		{http.MethodDelete, http.StatusForbidden, meter.Refused, Changed, "remove"},
		{http.MethodOptions, http.StatusNoContent, meter.Done, Probed, "OPTIONS"},
		{http.MethodPost, http.StatusMethodNotAllowed, meter.Refused, Refused, "POST"},
	} {
		var audit []Event
		r := &Reporter{Audit: func(e Event) { audit = append(audit, e) }, Hook: func(e Event) { t.Errorf("a hook gets %+v", e) }}
		r.Requested(meter.HTTPS, &web.Exchange{Method: c.method, Status: c.status, Name: "/f", User: "alice"}, c.result)
		if e := audit[0]; e.Event != c.kind || e.Operation != c.operation || e.Result != string(c.result) || e.Status != c.status || e.File != "/f" || e.User != "alice" || e.Peer != "unix" || e.Bytes != nil {
			t.Errorf("%s, status %d: %+v", c.method, c.status, e)
		}
	}
}

// The event of an upload waits for the hash, and passes on the file that the protocol reports.
func TestHashed(t *testing.T) {
	info, err := os.Stat(".")
	if err != nil {
		t.Fatal(err)
	}
	var got []Event
	r := &Reporter{
		Audit: func(e Event) { got = append(got, e) },
		Hash: func(e Event, file *store.Published, then func(Event)) {
			if file.Info != info {
				t.Error("the file is another")
			}
			sum := Sum("abc")
			e.SHA256 = &sum
			then(e)
		},
	}
	r.Ended(meter.Ended{Info: meter.Info{Write: true}, End: meter.End{Result: meter.Done, Detail: &web.Exchange{Method: http.MethodPut, Status: http.StatusCreated, Published: &store.Published{Info: info}}}})
	r.Ended(meter.Ended{Info: meter.Info{Write: true}, End: meter.End{Result: meter.Failed, Err: errors.New("broken")}})
	if len(got) != 2 || *got[0].SHA256 != "abc" || got[1].SHA256 != nil || got[1].Error != "broken" || got[1].Peer != "unix" {
		t.Errorf("%+v", got)
	}
}

// Without receivers nothing happens, and logins are reported with their details.
func TestLogin(t *testing.T) {
	var none *Reporter
	none.Login(meter.HTTP, "192.0.2.1", users.Event{})
	none.Ended(meter.Ended{})
	var got []Event
	r := &Reporter{Hook: func(e Event) { got = append(got, e) }}
	r.Login(meter.SFTP, "192.0.2.1:5", users.Event{Outcome: users.Accepted, User: "alice", Method: "publickey", Key: "SHA256:x"})
	r.Login(meter.HTTP, "192.0.2.1", users.Event{Outcome: users.Refused, User: "bob", Method: "password", Reason: "wrong"})
	if len(got) != 2 || got[0].Event != Login || got[0].Result != "accepted" || got[0].Key != "SHA256:x" ||
		got[1].Event != LoginFailed || got[1].Error != "wrong" || got[1].User != "bob" || time.Since(got[1].Time) > time.Hour {
		t.Errorf("%+v", got)
	}
}

// An upload of haul's client is reported when it is renamed to its final name, with the bytes of
// all its handles. If it is never renamed, no upload is reported.
func TestHiddenNames(t *testing.T) {
	var got []Event
	r := &Reporter{Audit: func(e Event) { got = append(got, e) }}
	conn := &sftp.Conn{User: "alice"}
	hidden := func(key string) string { return "/in/.haul-" + strings.Repeat(key, 26) + ".upload" }
	ended := func(name string, bytes int64, part bool) {
		r.Ended(meter.Ended{
			Info: meter.Info{Protocol: meter.SFTP, Write: true, User: "alice", Name: name, Began: time.Now()},
			End:  meter.End{Result: meter.Done, Bytes: bytes, File: name, Path: "/srv/alice" + name, Detail: &sftp.Transfer{Conn: conn, Name: name, Write: true, Part: part}},
		})
	}
	ended(hidden("A"), 3, false)
	ended(hidden("A"), 4, false)
	ended(hidden("B"), 5, false)
	if len(got) != 0 {
		t.Fatalf("%+v is reported too soon", got)
	}
	r.Changed(&sftp.Operation{Conn: conn, What: "rename", Name: hidden("A"), To: "/in/file"}, "192.0.2.1:5", meter.Done)
	ended("/in/plain", 6, false)
	ended("/in/plain", 7, true)
	r.ConnEnded(&sftp.Conn{})
	r.ConnEnded(conn)
	r.ConnEnded(conn)
	want := []struct {
		kind       Kind
		file, path string
		bytes      int64
	}{
		{Uploaded, "/in/file", "/srv/alice/in/file", 7},
		{Changed, hidden("A"), "", 0},
		{Uploaded, "/in/plain", "/srv/alice/in/plain", 6},
		{Part, "/in/plain", "/srv/alice/in/plain", 7},
		{Part, hidden("B"), "/srv/alice" + hidden("B"), 5},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		if e := got[i]; e.Event != w.kind || e.File != w.file || e.Path != w.path || w.bytes > 0 && *e.Bytes != w.bytes {
			t.Errorf("event %d is %+v, want %+v", i, e, w)
		}
	}
}

// A user's uploads that wait for their names leave room for those of other users. Uploads beyond that
// are reported at once. The room is free again when a file is renamed, and when a connection ends.
func TestHiddenNamesOfUsers(t *testing.T) {
	now := 0
	r := &Reporter{Audit: func(e Event) {
		if e.Event == Uploaded {
			now++
		}
	}}
	key := strings.Repeat("A", 26)
	name := func(i int) string { return "/" + strconv.Itoa(i) + "/.haul-" + key + ".upload" }
	alice, bob := &sftp.Conn{User: "alice"}, &sftp.Conn{User: "bob"}
	upload := func(c *sftp.Conn, i int) {
		r.Ended(meter.Ended{
			Info: meter.Info{Protocol: meter.SFTP, Write: true, User: c.User, Name: name(i)},
			End:  meter.End{Result: meter.Done, File: name(i), Detail: &sftp.Transfer{Conn: c, Name: name(i), Write: true}},
		})
	}
	wantNow := func(when string, want int) {
		t.Helper()
		if now != want {
			t.Errorf("%s: %d uploads are reported, want %d", when, now, want)
		}
		now = 0
	}
	for i := range maxHeld {
		upload(alice, i)
	}
	wantNow("alice has more than her share", maxHeld/2)
	upload(alice, 0)
	wantNow("another handle of the same file", 0)
	upload(bob, 1)
	wantNow("bob has none", 0)
	r.Changed(&sftp.Operation{Conn: bob, What: "rename", Name: name(1), To: "/file"}, "192.0.2.1:5", meter.Done)
	wantNow("bob's file has its name", 1)
	r.ConnEnded(alice)
	for i := range maxHeld/2 - 1 {
		upload(alice, i)
	}
	wantNow("alice is back", 0)
	r.Changed(&sftp.Operation{Conn: alice, What: "rename", Name: name(0), To: "/file"}, "192.0.2.1:5", meter.Done)
	wantNow("a file of alice has its name", 1)
	upload(alice, maxHeld)
	upload(alice, maxHeld+1)
	wantNow("there is room for another file", 0)
}

// A text has the same length in a variable as in JSON.
func TestVariablesCut(t *testing.T) {
	e := Event{User: strings.Repeat("u", maxName), File: strings.Repeat("f", 2*maxName)}
	v := e.Variables()
	all := v.Environ()
	for _, want := range []string{"HAUL_USER=" + e.User[:maxText], "HAUL_FILE=" + e.File[:maxName]} {
		if !slices.Contains(all, want) {
			t.Errorf("%.14s... is missing", want)
		}
	}
}

// A TFTP transfer triggers a hook only if the peer has sent an ACK or DATA, because a request may
// be forged. The audit log has its event in any case.
func TestUnheard(t *testing.T) {
	for _, one := range []struct {
		what    string
		stats   transfer.Stats
		outcome tftp.Outcome
		hook    bool
	}{
		{"nothing came", transfer.Stats{Sent: 5}, tftp.PeerSilent, false},
		{"what came did not fit", transfer.Stats{Sent: 5, Received: 2, Strays: 2}, tftp.PeerSilent, false},
		{"another request came", transfer.Stats{Sent: 1}, tftp.Replaced, false},
		{"the disk is full", transfer.Stats{}, tftp.Failed, false},
		{"an ERROR came", transfer.Stats{Sent: 1, Received: 1}, tftp.EndedByPeer, false},
		{"an ACK and an ERROR came", transfer.Stats{Sent: 1, Received: 2}, tftp.EndedByPeer, true},
		{"an ACK came", transfer.Stats{Sent: 5, Received: 1}, tftp.PeerSilent, true},
		{"an ACK came, and what did not fit", transfer.Stats{Sent: 5, Received: 3, Strays: 2}, tftp.PeerSilent, true},
	} {
		audit, hook := 0, 0
		r := &Reporter{Audit: func(Event) { audit++ }, Hook: func(Event) { hook++ }}
		r.Ended(meter.Ended{
			Info: meter.Info{Protocol: meter.TFTP, Write: true, Name: "n"},
			End:  meter.End{Result: meter.Result(one.outcome), Detail: &tftp.Transfer{Outcome: one.outcome, Stats: one.stats}},
		})
		if audit != 1 || (hook == 1) != one.hook {
			t.Errorf("%s: %d lines, %d hooks", one.what, audit, hook)
		}
	}
}

// Events in which nothing was moved or changed are fruitless, and no others.
func TestFruitless(t *testing.T) {
	none, some := int64(0), int64(1)
	for _, one := range []struct {
		event Event
		want  bool
	}{
		{Event{Event: Refused}, true},
		{Event{Event: Refused, Bytes: &none}, true},
		{Event{Event: Refused, Bytes: &some}, false},
		{Event{Event: Failed, Bytes: &none}, true},
		{Event{Event: Failed, Bytes: &some}, false},
		{Event{Event: LoginFailed}, true},
		{Event{Event: Login}, false},
		{Event{Event: Changed, Result: "refused"}, true},
		{Event{Event: Changed, Result: "failed"}, true},
		{Event{Event: Changed, Result: "done"}, false},
		{Event{Event: Probed, Operation: http.MethodOptions}, true},
		{Event{Event: Probed, Status: http.StatusAccepted, Bytes: &none}, true},
		{Event{Event: Probed, Status: http.StatusNotModified, Bytes: &none}, false},
		{Event{Event: Probed, Bytes: &none}, false},
		{Event{Event: Uploaded, Bytes: &none}, false},
		{Event{Event: Downloaded, Bytes: &none}, false},
		{Event{Event: Part, Bytes: &none}, false},
		{Event{Event: Lost}, false},
		{Event{Event: LeftOut}, false},
	} {
		if got := one.event.Fruitless(); got != one.want {
			t.Errorf("%s, result %q, status %d: %v", one.event.Event, one.event.Result, one.event.Status, got)
		}
	}
}

// A shortened event has the beginnings of its texts, and says that they are cut. A short event stays
// as it is.
func TestShorten(t *testing.T) {
	long := strings.Repeat("\x01", maxName)
	e := Event{User: long, File: long, Path: long, To: long, Stored: long, Operation: long, Error: long, Credential: Credential{Key: long}}
	e.Shorten()
	if line := e.AppendLine(nil); !e.Cut || len(line) > 16<<10 { // JSON escapes a control character in 6 bytes
		t.Errorf("cut is %v, and the line has %d bytes", e.Cut, len(line))
	}
	for _, text := range []string{e.User, e.File, e.Path, e.To, e.Stored, e.Operation, e.Key} {
		if text != long[:256] {
			t.Errorf("a text has %d bytes", len(text))
		}
	}
	short := Event{User: "u", File: long[:256], Error: "e"}
	if short.Shorten(); short.Cut || short.User != "u" || short.File != long[:256] || short.Error != "e" {
		t.Errorf("%+v", short)
	}
	failed := Event{Error: long}
	if failed.Shorten(); !failed.Cut || failed.Error == "" || len(failed.Error) == len(long) {
		t.Errorf("an error has %d bytes, and cut is %v", len(failed.Error), failed.Cut)
	}
}
