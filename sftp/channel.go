package sftp

import (
	"context"
	"io"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/users"
)

const subsystem = "sftp"

// accept accepts a session channel that the peer opens, and serves it on a new goroutine. It
// refuses channels of other types, and sessions beyond the limit.
func (c *serverConn) accept(nc ssh.NewChannel) {
	switch {
	case nc.ChannelType() != "session":
		_ = nc.Reject(ssh.Prohibited, "there are sessions only")
		c.refused(nc.ChannelType(), addressIn(nc.ExtraData()))
		return
	case c.channels.Load() >= int64(c.server.maxChannels()):
		_ = nc.Reject(ssh.ResourceShortage, "too many sessions")
		c.refused(nc.ChannelType(), "too many")
		return
	}
	ch, requests, err := nc.Accept()
	if err != nil { // the connection is gone
		return
	}
	c.channels.Add(1)
	c.work.Go(func() {
		// A channel counts against the limit until the peer closes its side too. Otherwise a peer
		// that never closes could hold any number of channels.
		defer c.channels.Add(-1)
		c.serveChannel(ch, requests)
	})
}

// serveChannel handles the requests on a channel until the peer closes it. It serves the first
// request for SFTP or for hashes, and refuses all other requests.
func (c *serverConn) serveChannel(ch ssh.Channel, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	data := c.quota.open(ch)
	defer c.quota.close(data)
	c.work.Go(func() { c.discard(ch.Stderr()) })
	started := false
	defer func() {
		// x/crypto blocks unless all requests are received, so receive them even if a hook has
		// panicked.
		for r := range requests {
			_ = r.Reply(false, nil)
		}
	}()
	defer c.recover(nil)
	for r := range requests {
		var serve func()
		if !started {
			serve = c.service(ctx, ch, data, r)
		}
		_ = r.Reply(serve != nil, nil) // an error means only that the connection is gone
		if serve != nil {
			started = true
			c.work.Go(serve)
			continue
		}
		switch r.Type {
		case "shell", "pty-req", "x11-req", "auth-agent-req@openssh.com":
			c.refused(r.Type, "")
		case "exec", "subsystem":
			c.refused(r.Type, subsystemOf(r.Payload))
		}
	}
}

// service returns a function that serves the request r on a channel. It returns nil if the server
// does not offer that service to the account.
func (c *serverConn) service(ctx context.Context, ch ssh.Channel, data *queue, r *ssh.Request) func() {
	text := subsystemOf(r.Payload)
	switch r.Type {
	case "subsystem":
		if text == subsystem {
			return func() { c.serveChannelSession(ctx, ch, data) }
		}
	case "exec":
		if cmd, ok := parseHashCommand(text); ok && c.account.Access != users.UploadOnly {
			return func() { c.serveHashes(ctx, ch, data, cmd) }
		}
	}
	return nil
}

// subsystemOf returns the name in a request for a subsystem, or the command in a request to run one
// (RFC 4254, section 6.5).
func subsystemOf(payload []byte) string {
	var m struct{ Name string }
	if ssh.Unmarshal(payload, &m) != nil {
		return ""
	}
	return m.Name
}

// discard reads and drops the data that a peer sends on stderr. Unread data would take up memory
// and the channel's window.
func (c *serverConn) discard(r io.Reader) {
	var b [512]byte
	for {
		n, err := r.Read(b[:])
		if err != nil {
			return
		}
		c.quota.take(n)
	}
}

// serveChannelSession speaks SFTP on a channel whose incoming data is read through a queue.
func (c *serverConn) serveChannelSession(ctx context.Context, ch ssh.Channel, data *queue) {
	defer c.recover(nil)
	status := uint32(0)
	if c.serveSession(ctx, fromQueue{data, ch}) != nil {
		status = 1
	}
	endChannel(ch, status)
}

// A fromQueue reads from a channel's queue, and writes to the channel.
type fromQueue struct {
	*queue
	io.Writer
}
