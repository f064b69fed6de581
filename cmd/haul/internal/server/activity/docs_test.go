package activity

import (
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

var fieldRow = regexp.MustCompile("^\\| `(\\w+)` \\| \\w+ \\| (yes|no) \\|")

// readFields reads the tables of docs/hooks.md: for each kind of event its fields, and whether each
// is always present.
func readFields(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../../../../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds, common := map[string]map[string]bool{}, map[string]bool{}
	fields := common
	for line := range strings.Lines(string(text)) {
		if kind, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok {
			fields = maps.Clone(common)
			kinds[kind] = fields
		} else if m := fieldRow.FindStringSubmatch(line); m != nil {
			fields[m[1]] = m[2] == "yes"
		}
	}
	if len(common) != 2 {
		t.Fatalf("%d common fields; is the search at fault?", len(common))
	}
	return kinds
}

// Each event has exactly the fields in docs/hooks.md, and the test covers all kinds and fields of
// the tables.
func TestDocumented(t *testing.T) {
	kinds, seen := readFields(t), map[string]bool{}
	check := func(e Event) {
		var got map[string]any
		if err := json.Unmarshal(e.AppendLine(nil), &got); err != nil {
			t.Fatal(err)
		}
		fields, ok := kinds[string(e.Event)]
		if !ok {
			t.Fatalf("docs/hooks.md has no event %s", e.Event)
		}
		seen[string(e.Event)] = true
		for name := range got {
			if _, ok := fields[name]; !ok {
				t.Errorf("docs/hooks.md has no field %s of %s: %v", name, e.Event, got)
			}
			seen[string(e.Event)+"."+name] = true
		}
		for name, always := range fields {
			if _, there := got[name]; always && !there {
				t.Errorf("%s has no %s: %v", e.Event, name, got)
			}
		}
	}
	sum := Sum("")
	r := &Reporter{
		Audit: check, Hook: check,
		Hash: func(e Event, _ *store.Published, then func(Event)) {
			e.SHA256, e.Why = &sum, "why"
			then(e)
		},
	}
	const odd = "caf\xe9"
	mac, err := dhcp.ParseMAC("52:54:00:12:34:56")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", maxName) + odd
	conn := &sftp.Conn{User: odd, Peer: &net.TCPAddr{}}
	end := func(write bool, e meter.End) {
		e.Path, e.Err = "/srv/"+odd, errors.New("why")
		if e.Result == meter.Done || e.Result == meter.Probe {
			e.Err = nil
		}
		r.Ended(meter.Ended{Info: meter.Info{Protocol: meter.SFTP, Write: write, User: odd, Began: time.Now(), Peer: netip.MustParseAddrPort("192.0.2.1:5")}, End: e})
	}
	request := func(x *web.Exchange, result meter.Result) {
		x.Path, x.User, x.Began, x.Err = "/srv/"+odd, odd, time.Now(), errors.New("why")
		if result == meter.Done {
			x.Err = nil
		}
		r.Requested(meter.HTTP, x, result)
	}
	for _, file := range []string{odd, long} {
		end(true, meter.End{Result: meter.Done, File: file, Stored: odd, Detail: &web.Exchange{Method: http.MethodPut, Status: http.StatusCreated}})
		end(false, meter.End{Result: meter.Done, File: file, Detail: &web.Exchange{Method: http.MethodGet, Status: http.StatusOK}})
		end(true, meter.End{Result: meter.Failed, File: file, Stored: odd, Detail: &web.Exchange{Method: http.MethodPut, Status: http.StatusInternalServerError}})
		end(true, meter.End{Result: meter.Refused, File: file})
		request(&web.Exchange{Method: http.MethodPost, Status: http.StatusMethodNotAllowed, Name: file}, meter.Refused)
		end(false, meter.End{Result: meter.Probe, File: file})
		request(&web.Exchange{Method: http.MethodOptions, Status: http.StatusNoContent, Name: file}, meter.Done)
		end(true, meter.End{Result: meter.Done, File: file, Detail: &sftp.Transfer{Conn: conn, Name: file, Write: true, Part: true}})
		request(&web.Exchange{Method: http.MethodDelete, Status: http.StatusForbidden, Name: file}, meter.Refused)
		r.Changed(&sftp.Operation{Conn: conn, What: "rename", Name: file, To: odd, Err: errors.New("why")}, "192.0.2.1:5", meter.Failed)
		r.Boot(pxe.Machine{MAC: mac, Addr: dhcp.Addr{192, 0, 2, 9}, Stage: pxe.Kernel}, file)
	}
	r.Changed(&sftp.Operation{Conn: conn, What: "mkdir", Name: "/d"}, "unix", meter.Done)
	r.Refused(&sftp.Refusal{Conn: conn, What: "exec", Detail: "rm -rf /"}, "192.0.2.1:5")
	r.Boot(pxe.Machine{MAC: mac, Stage: pxe.Stuck}, "")
	for _, user := range []string{odd, strings.Repeat("u", 2*maxText)} {
		r.Login(meter.SFTP, "192.0.2.1:5", users.Event{Outcome: users.Accepted, User: user, Method: "publickey", Key: "SHA256:x"})
		r.Login(meter.HTTP, "192.0.2.1", users.Event{Outcome: users.Refused, User: user, Method: "password", Key: "SHA256:x", Reason: "wrong"})
	}
	check(Event{Event: Lost, Time: time.Now(), Lines: 3})
	check(Event{Event: LeftOut, Time: time.Now(), Protocol: "sftp", Operation: "login", Peer: "192.0.2.1:5", Lines: 3})
	check(Event{Event: LeftOut, Time: time.Now(), Protocol: "sftp", User: "u", Lines: 3})
	for kind, fields := range kinds {
		for _, name := range append(slices.Collect(maps.Keys(fields)), "event") {
			if key := kind + "." + name; !seen[key] && key != "part.status" { // of a request that has sent bytes
				t.Errorf("no event has %s", key)
			}
		}
	}
}
