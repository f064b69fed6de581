package sftp

import (
	"context"
	"encoding/binary"
	"io"

	"golang.org/x/crypto/ssh"
)

const subsystem = "sftp"

// accept takes a channel that the peer opens, or refuses it.
func (c *serverConn) accept(nc ssh.NewChannel) {
	switch {
	case nc.ChannelType() != "session":
		_ = nc.Reject(ssh.Prohibited, "there are sessions only")
		return
	case c.channels.Load() >= int64(c.server.maxChannels()):
		_ = nc.Reject(ssh.ResourceShortage, "too many sessions")
		return
	}
	ch, requests, err := nc.Accept()
	if err != nil { // the connection is gone
		return
	}
	c.channels.Add(1)
	c.work.Go(func() {
		// A peer that does not close its side keeps its place, or there would
		// be no bound on channels.
		defer c.channels.Add(-1)
		c.serveChannel(ch, requests)
	})
}

// serveChannel waits for the request for SFTP, and refuses all others, until the
// peer closes the channel.
func (c *serverConn) serveChannel(ch ssh.Channel, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	data := c.intake.open(ch)
	defer c.intake.close(data)
	c.work.Go(func() { c.discard(ch.Stderr()) })
	started := false
	for r := range requests {
		ok := !started && r.Type == "subsystem" && subsystemOf(r.Payload) == subsystem
		_ = r.Reply(ok, nil) // or the connection is gone
		if ok {
			started = true
			c.work.Go(func() { c.serveSession(ctx, ch, data) })
		}
	}
}

// subsystemOf returns the name in a request for a subsystem (RFC 4254, section
// 6.5).
func subsystemOf(payload []byte) string {
	var m struct{ Name string }
	if ssh.Unmarshal(payload, &m) != nil {
		return ""
	}
	return m.Name
}

// discard throws away what a peer sends beside the data. There is no use for it,
// but unread it would take up memory and the channel's window.
func (c *serverConn) discard(r io.Reader) {
	var b [512]byte
	for {
		n, err := r.Read(b[:])
		if err != nil {
			return
		}
		c.intake.take(n)
	}
}

// serveSession speaks SFTP on a channel, whose data comes by a queue, until the
// peer has had enough, or breaks its rules.
func (c *serverConn) serveSession(ctx context.Context, ch ssh.Channel, data *queue) {
	var err error
	defer c.recover(&err)
	c.server.counts.sessions.Add(1)
	defer c.server.counts.sessions.Add(-1)
	status := uint32(0)
	if err = newSession(ctx, c, fromQueue{data, ch}).serve(); err != nil {
		status = 1
	}
	// What the peer does not take of this is lost with the connection.
	_ = ch.CloseWrite()
	_, _ = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, status))
	_ = ch.Close()
}

// A fromQueue reads from a channel's queue, and writes to the channel.
type fromQueue struct {
	*queue
	io.Writer
}
