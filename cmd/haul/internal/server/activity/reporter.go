package activity

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// A Reporter makes events from the reports of the protocols. Audit, Hook and Hash must not block.
// The methods of a nil Reporter do nothing.
type Reporter struct {
	// Audit receives all events except boot events, and Hook receives the events of [HookKinds].
	// Either may be nil.
	Audit, Hook func(Event)

	// Hash computes the hash of each upload. It then sets the event's SHA256, and Why if the hash
	// could not be computed, and calls `then` with the event. file is the published file, or nil if it
	// is not known; Hash closes it. If Hash is nil, no hashes are computed.
	Hash func(e Event, file *store.Published, then func(Event))

	held held
}

// send passes an event to Audit and Hook.
func (r *Reporter) send(e Event) {
	r.record(e)
	if r.Hook != nil && slices.Contains(HookKinds, e.Event) {
		r.Hook(e)
	}
}

// record passes an event to Audit only.
func (r *Reporter) record(e Event) {
	if r.Audit != nil && e.Event != Boot {
		r.Audit(e)
	}
}

// peerText returns the address of a peer in the format of the log. For a proxy that connects by a
// unix socket, that is "unix".
func peerText(peer netip.AddrPort) string {
	if !peer.IsValid() {
		return "unix"
	}
	return peer.String()
}

// Ended reports a transfer that has ended. t.Detail is the report of the protocol's server.
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
		if !isHeard(d) { // the request may be forged, so it triggers no hook
			r.record(e)
			return
		}
		published = d.Published
	case *sftp.Transfer:
		published = d.Published
		switch {
		case e.Event != Uploaded:
		case d.Read && d.Received() == 0: // the file was opened for reading and writing, but was only read
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

// isHeard reports whether a TFTP client has sent an ACK or DATA after its request.
func isHeard(t *tftp.Transfer) bool {
	fitting := t.Received - t.Strays
	if t.Outcome == tftp.EndedByPeer {
		fitting-- // an ERROR may be forged as easily as the request
	}
	return fitting > 0
}

// finish sends an event. For an upload, it first lets Hash compute the hash of the file.
func (r *Reporter) finish(e Event, file *store.Published) {
	if file != nil {
		e.info = file.Info
	}
	if e.Event == Uploaded && r.Hash != nil {
		r.Hash(e, file, r.send)
		return
	}
	file.Close()
	r.send(e)
}

// Requested reports an HTTP request that transfers no file, because its method is not GET, HEAD or
// PUT.
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

// ofExchange corrects the kind of an HTTP event, because a request whose method transfers a file
// may have transferred nothing, or only a part.
func (e *Event) ofExchange(x *web.Exchange) {
	switch {
	case e.Event == Downloaded && x.Status != http.StatusOK && x.Status != http.StatusPartialContent:
		e.Event = Probed // the client has the file already
	case e.Event == Uploaded && x.Status == http.StatusAccepted && x.Received() == 0:
		e.Event = Probed // the client asked how much was received
	case e.Event == Uploaded && x.Status == http.StatusAccepted:
		e.Event = Part
	}
}

// kindOf returns the kind of event for a transfer, according to the transfer's result.
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

// Changed reports an SFTP operation and its result. peer is in the format of the log.
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

// Refused reports an SSH request for something that the server does not offer, such as a shell.
// peer is in the format of the log.
func (r *Reporter) Refused(f *sftp.Refusal, peer string) {
	if r == nil {
		return
	}
	r.send(Event{
		Event: Refused, Time: time.Now(), Protocol: string(meter.SFTP), Result: string(meter.Refused), Operation: f.What,
		Peer: peer, User: f.Conn.User, Error: f.Detail,
	})
}

// Login reports an attempt to log in. peer is in the format of the log, and e.Peer is ignored.
func (r *Reporter) Login(p meter.Protocol, peer string, e users.Event) {
	if r == nil {
		return
	}
	kind, result := Login, "accepted"
	if e.Outcome != users.Accepted {
		kind, result = LoginFailed, "refused"
	}
	r.send(Event{Event: kind, Time: time.Now(), Protocol: string(p), Result: result, Peer: peer, User: e.User, Credential: Credential{e.Method, e.Key}, Error: e.Reason})
}

// Boot reports that a booting machine has reached another stage. file is the file that it
// requested, if any.
func (r *Reporter) Boot(m pxe.Machine, file string) {
	if r == nil {
		return
	}
	e := Event{Event: Boot, Time: time.Now(), Protocol: "boot", File: file, Machine: Machine{m.MAC.String(), m.Client.Arch.String(), m.Stage.String()}}
	if addr := netip.AddrFrom4(m.Addr); !addr.IsUnspecified() {
		e.Peer = addr.String()
	}
	r.send(e)
}

// textOf returns the text of an error, or "" for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
