package activity

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/pxe"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// A Reporter makes events of what the protocols report. Its functions must not wait. On a nil
// Reporter all methods do nothing.
type Reporter struct {
	// Audit takes all events, and Hook those of [HookKinds]; nil takes none.
	Audit, Hook func(Event)

	// Hash is asked for the hash of each upload, and calls then with the event, which has
	// SHA256 and perhaps Why, once it knows. The file is the one that the upload has
	// published, nil if that is not known; Hash closes it. A nil Hash makes no hashes.
	Hash func(e Event, file *store.Published, then func(Event))

	held held
}

// send hands an event on.
func (r *Reporter) send(e Event) {
	if r.Audit != nil && e.Event != Boot {
		r.Audit(e)
	}
	if r.Hook != nil && slices.Contains(HookKinds, e.Event) {
		r.Hook(e)
	}
}

// peerText returns the address of a peer: "unix" for a proxy that connects by a unix socket, as
// in the log.
func peerText(peer netip.AddrPort) string {
	if !peer.IsValid() {
		return "unix"
	}
	return peer.String()
}

// Ended reports a transfer. [meter.End].Detail is what the protocol's server has reported.
func (r *Reporter) Ended(t meter.Ended) {
	if r == nil {
		return
	}
	e := Event{
		Event: kindOf(t), Time: time.Now(), Protocol: string(t.Protocol), Result: string(t.Result), User: t.User,
		File: cmp.Or(t.File, t.Name), Path: t.Path, Stored: t.Stored, Bytes: &t.Bytes, Error: textOf(t.Err),
	}
	e.Peer = peerText(t.Peer)
	e.took(t.Began, t.Duration)
	var published *store.Published
	switch d := t.Detail.(type) {
	case *tftp.Transfer:
		published = d.Published
	case *sftp.Transfer:
		published = d.Published
		switch {
		case e.Event != Uploaded:
		case d.Read && d.Received() == 0: // opened for both, and only read
			e.Event = Downloaded
		case d.Part:
			e.Event = Part
		case r.held.add(d, e, published):
			return
		}
	case *web.Exchange:
		published, e.Status = d.Published, d.Status
		e.ofExchange(d)
	}
	r.finish(e, published)
}

// finish hands an event on, once it has its hash.
func (r *Reporter) finish(e Event, file *store.Published) {
	if e.Event == Uploaded && r.Hash != nil {
		r.Hash(e, file, r.send)
		return
	}
	file.Close()
	r.send(e)
}

// Requested reports a request of HTTP that sends a file neither way: neither GET, HEAD nor PUT.
func (r *Reporter) Requested(p meter.Protocol, x *web.Exchange, result meter.Result) {
	if r == nil {
		return
	}
	e := Event{
		Event: Refused, Time: time.Now(), Protocol: string(p), Result: string(result), Operation: x.Method,
		Peer: peerText(x.Peer), User: x.User, File: x.Name, Path: x.Path, Status: x.Status, Error: textOf(x.Err),
	}
	switch {
	case x.Method == http.MethodDelete:
		e.Event, e.Operation = Changed, "remove"
	case x.Status < http.StatusBadRequest:
		e.Event = Probed
	}
	e.took(x.Began, x.Duration)
	r.send(e)
}

// ofExchange makes an event of HTTP what it is: it may have sent nothing.
func (e *Event) ofExchange(x *web.Exchange) {
	switch {
	case e.Event == Downloaded && x.Status != http.StatusOK && x.Status != http.StatusPartialContent:
		e.Event = Probed // it has the file already
	case e.Event == Uploaded && x.Status == http.StatusAccepted && x.Received() == 0:
		e.Event = Probed // how much is there was asked for
	case e.Event == Uploaded && x.Status == http.StatusAccepted:
		e.Event = Part
	}
}

// kindOf returns what a transfer was.
func kindOf(t meter.Ended) Kind {
	switch t.Result {
	case meter.Done, meter.Unconfirmed:
		if t.Write {
			return Uploaded
		}
		return Downloaded
	case meter.Probe:
		return Probed
	case meter.Refused:
		return Refused
	}
	return Failed
}

// Changed reports an operation of SFTP, and how it ended. peer is as in the log.
func (r *Reporter) Changed(o *sftp.Operation, peer string, result meter.Result) {
	if r == nil {
		return
	}
	if o.What == "rename" && o.Err == nil {
		if e, file, ok := r.held.take(o); ok {
			r.finish(e, file)
		}
	}
	r.send(Event{
		Event: Changed, Time: time.Now(), Protocol: string(meter.SFTP), Result: string(result), Operation: o.What,
		Peer: peer, User: o.Conn.User, File: o.Name, To: o.To, Error: textOf(o.Err),
	})
}

// Refused reports a request of SSH for something that the server does not have, such as a
// shell. peer is as in the log.
func (r *Reporter) Refused(f *sftp.Refusal, peer string) {
	if r == nil {
		return
	}
	r.send(Event{
		Event: Refused, Time: time.Now(), Protocol: string(meter.SFTP), Result: string(meter.Refused), Operation: f.What,
		Peer: peer, User: f.Conn.User, Error: f.Detail,
	})
}

// Login reports an attempt to log in. peer is as in the log, and e.Peer is not used.
func (r *Reporter) Login(p meter.Protocol, peer string, e users.Event) {
	if r == nil {
		return
	}
	kind, result := Login, "accepted"
	if e.Outcome != users.Accepted {
		kind, result = LoginFailed, "refused"
	}
	r.send(Event{Event: kind, Time: time.Now(), Protocol: string(p), Result: result, Peer: peer, User: e.User, Method: e.Method, Key: e.Key, Error: e.Reason})
}

// Boot reports that a machine that boots has reached another stage, by a request for a file
// if one is named.
func (r *Reporter) Boot(m pxe.Machine, file string) {
	if r == nil {
		return
	}
	e := Event{Event: Boot, Time: time.Now(), Protocol: "boot", MAC: m.MAC.String(), Arch: m.Client.Arch.String(), Stage: m.Stage.String(), File: file}
	if addr := netip.AddrFrom4(m.Addr); !addr.IsUnspecified() {
		e.Peer = addr.String()
	}
	r.send(e)
}

// textOf returns an error as text; "" for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
