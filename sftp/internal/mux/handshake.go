package mux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A greeting holds the options of a session's handshake.
type greeting struct {
	// sequential makes each request of the handshake wait for the answer to the previous one.
	// Otherwise the requests for the limits and for a first file are sent together with INIT, and a
	// server that does not support them refuses them.
	sequential bool

	first  string           // the path of a file to request with the handshake; "" for no file
	server *Server          // the server's properties, which the first session determined; nil in that session
	large  func(size int64) // called with the size if the first file was opened and is large
}

// handshake exchanges INIT and VERSION with the server, and determines what the server supports.
func (s *Session) handshake(ctx context.Context, how greeting) (announcement, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.stream.Close() })
	g, err := s.exchange(how)
	if !stop() {
		err = context.Cause(ctx)
	}
	return g, err
}

func (s *Session) exchange(how greeting) (g announcement, err error) {
	b := wire.AppendInit(nil, wire.ProtocolVersion)
	if !how.sequential {
		b = wire.AppendLimits(b, limitsID)
		if how.first != "" {
			g.prefetched = &prefetched{name: how.first, session: s}
			b = g.prefetched.ask(b)
		}
		b = s.takeText(b)
	}
	sent := s.send(b)
	err = s.awaitPacket()
	// An ErrProtocol already quotes what the server sent, which explains more.
	if sent != nil && !errors.Is(err, ErrProtocol) {
		err = lost("write", sent)
	}
	if err != nil {
		return g, err
	}
	p, err := s.reply()
	if err != nil {
		return g, err
	}
	if p.Type != wire.TypeVersion {
		return g, fmt.Errorf("%w: %v in answer to INIT", ErrProtocol, p.Type)
	}
	if p.Version < wire.ProtocolVersion {
		return g, fmt.Errorf("the server speaks version %d of SFTP, and the client version %d", p.Version, wire.ProtocolVersion)
	}
	// The time limit starts only now: before VERSION, a login may have asked a user for a password.
	if s.conn.isStream() {
		late := time.AfterFunc(s.core.config.Timeout, func() { _ = s.stream.Close() })
		defer func() {
			if !late.Stop() {
				err = ErrHandshakeTime
			}
		}()
	}
	g.ext = p.Pairs.Known()
	if how.server != nil && g.ext != how.server.Ext {
		return g, errOtherServer
	}
	if how.sequential {
		if !g.ext.Has(wire.ExtLimits) {
			return g, nil
		}
		if err := s.send(wire.AppendLimits(nil, limitsID)); err != nil {
			return g, lost("write", err)
		}
	}
	if g.prefetched != nil {
		return g, s.prefetch(&g, how.large)
	}
	if err := s.limits(&g); err != nil {
		return g, err
	}
	if how.server != nil && g.limits != how.server.limits {
		return g, errOtherServer
	}
	return g, nil
}

// errOtherServer means that a further session seems to have reached a different server, although
// the name of the server is the same.
var errOtherServer = fmt.Errorf("%w: a further session offers other extensions or limits than the first", ErrProtocol)

// maxText is how many bytes of an unexpected text an error quotes. Such a text may arrive in place
// of VERSION.
const maxText = 80

// awaitPacket waits for the first packet. If text arrives instead, the error quotes it: as a packet
// length, its first letters would mean a gigabyte or more.
func (s *Session) awaitPacket() error {
	head, err := s.in.Peek(wire.HeaderSize)
	if err != nil {
		err = lost("read", err)
	} else if _, err = wire.ParseHeader(head); err == nil {
		return nil
	} else {
		err = Violation(err)
	}
	text, _ := s.in.Peek(min(s.in.Buffered(), maxText))
	if end := bytes.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) && !unicode.IsSpace(r) }); end >= 0 {
		text = text[:end]
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	if len(words) < 2 {
		return err
	}
	return fmt.Errorf("%w: it sends text where SFTP begins: %q; if a startup file of the account's shell prints that, such as .bashrc, it must not do so without a terminal", ErrProtocol, words)
}

// limits reads the answer to the request for limits, and all answers that arrive before it. Those
// belong to requests that were sent in the same packet.
func (s *Session) limits(g *announcement) error {
	for {
		h, err := s.header()
		if err != nil {
			return err
		}
		if h.Type == wire.TypeData {
			if err := s.owner.takeData(s); err != nil {
				return err
			}
			continue
		}
		if err := s.rest(h); err != nil {
			return err
		}
		p, err := wire.ParseReply(s.body)
		if err != nil {
			return Violation(err)
		}
		if p.ID == limitsID {
			return g.takeLimits(&p)
		}
		if err := s.owner.takeReply(s); err != nil {
			return err
		}
	}
}

// takeLimits stores the server's limits from the answer p.
func (g *announcement) takeLimits(p *wire.Reply) (err error) {
	switch {
	case p.ID != limitsID || p.Type != wire.TypeStatus && p.Type != wire.TypeExtendedReply:
		return fmt.Errorf("%w: %v with id %d in answer to the question for limits", ErrProtocol, p.Type, p.ID)
	case p.Type == wire.TypeExtendedReply:
		g.limits, err = p.Limits()
	}
	return Violation(err)
}

// prefetch reads the answers to the requests for limits and for a first file. If the file is large,
// it does not wait for the data: that takes another round trip after TCP's first flight, and the
// transfer of the file will request the data again.
func (s *Session) prefetch(g *announcement, large func(size int64)) error {
	f := g.prefetched
	for seen := 0; seen != prefetchIDs; {
		if seen&prefetchKnows == prefetchKnows && f.isLarge() {
			s.late = prefetchIDs &^ seen
			break
		}
		p, err := s.reply()
		if err != nil {
			return err
		}
		if p.ID < limitsID || p.ID >= prefetchReadID+uint32(len(guessedHandles)) || seen&(1<<p.ID) != 0 {
			return fmt.Errorf("%w: %v for id %d, under which nothing was asked", ErrProtocol, p.Type, p.ID)
		}
		seen |= 1 << p.ID
		if p.ID == limitsID {
			err = g.takeLimits(&p)
		} else {
			err = f.take(&p)
		}
		if err != nil {
			return err
		}
	}
	// Only prepare for a large file if it was opened: otherwise it will not be transferred.
	if large != nil && f.isLarge() {
		large(f.attrs.Size)
	}
	f.finish(time.Now())
	return nil
}

// isLate reports whether id belongs to an answer for which the handshake did not wait. It returns
// true only once for each such answer. Only the goroutine that reads calls it.
func (s *Session) isLate(id uint32) bool {
	if id >= prefetchReadID+uint32(len(guessedHandles)) || s.late&(1<<id) == 0 {
		return false
	}
	s.late &^= 1 << id
	return true
}

// skip reads and drops the data of a first file, if the handshake did not wait for that data. Only
// the goroutine that reads calls it.
func (s *Session) skip(n, extra int) error {
	if n > prefetchData {
		return fmt.Errorf("%w: %d bytes of data where %d were asked for", ErrProtocol, n, prefetchData)
	}
	if _, err := s.in.Discard(n + extra); err != nil {
		return lost("read", err)
	}
	return nil
}
