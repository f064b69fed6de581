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

// An announcement is what a server offers: extensions and limits.
type announcement struct {
	ext        wire.Extensions
	limits     wire.Limits
	prefetched *prefetched // nil if none was asked for
}

// limitsID is the id of the request for limits, which is sent before a lane
// starts.
const limitsID = 1

// handshake exchanges INIT and VERSION. Unless careful, the request for limits, and those
// for the first file, are sent along with INIT: a server that does not know them refuses
// them.
func (l *Lane) handshake(ctx context.Context, careful bool, first string) (announcement, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.stream.Close() })
	g, err := l.exchange(careful, first)
	if !stop() {
		err = context.Cause(ctx)
	}
	return g, err
}

func (l *Lane) exchange(careful bool, first string) (g announcement, err error) {
	b := wire.AppendInit(nil, wire.ProtocolVersion)
	if !careful {
		b = wire.AppendLimits(b, limitsID)
		if first != "" {
			g.prefetched = &prefetched{name: first, lane: l}
			b = g.prefetched.ask(b)
		}
		b = l.appendAhead(b)
	}
	sent := l.send(b)
	err = l.lookAhead()
	if sent != nil && !errors.Is(err, ErrProtocol) { // or it has said something, and ended
		err = lost("write", sent)
	}
	if err != nil {
		return g, err
	}
	p, err := l.reply()
	if err != nil {
		return g, err
	}
	if p.Type != wire.TypeVersion {
		return g, fmt.Errorf("%w: %v in answer to INIT", ErrProtocol, p.Type)
	}
	if p.Version < wire.ProtocolVersion {
		return g, fmt.Errorf("server speaks version %d of SFTP, and %d is spoken here", p.Version, wire.ProtocolVersion)
	}
	if l.conn.isStream() { // what came before may have been a login, with questions to a user
		late := time.AfterFunc(l.mux.config.Timeout, func() { _ = l.stream.Close() })
		defer func() {
			if !late.Stop() {
				err = ErrHandshakeTime
			}
		}()
	}
	g.ext = p.Pairs.Known()
	if s := l.mux.Server; s != nil && g.ext != s.Ext {
		return g, errOtherServer
	}
	if careful {
		if !g.ext.Has(wire.ExtLimits) {
			return g, nil
		}
		if err := l.send(wire.AppendLimits(nil, limitsID)); err != nil {
			return g, lost("write", err)
		}
	}
	if g.prefetched != nil {
		return g, l.answers(&g)
	}
	if err := l.limits(&g); err != nil {
		return g, err
	}
	if s := l.mux.Server; s != nil && g.limits != s.limits {
		return g, errOtherServer
	}
	return g, nil
}

// maxText is how many bytes are shown of text that comes where VERSION should.
const maxText = 80

// lookAhead waits for the first packet, and says of what comes in its place that it is text, if
// it is. Clients that take its first letters for a length complain of a packet of a gigabyte or
// more.
func (l *Lane) lookAhead() error {
	head, err := l.in.Peek(wire.HeaderSize)
	if err != nil {
		err = lost("read", err)
	} else if _, err = wire.ParseHeader(head); err == nil {
		return nil
	} else {
		err = Violation(err)
	}
	text, _ := l.in.Peek(min(l.in.Buffered(), maxText))
	if end := bytes.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) && !unicode.IsSpace(r) }); end >= 0 {
		text = text[:end]
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	if len(words) < 2 {
		return err
	}
	return fmt.Errorf("%w: it sends text where SFTP begins: %q; if a startup file of the account's shell prints that, such as .bashrc, it must not do so without a terminal", ErrProtocol, words)
}

// errOtherServer is the error of a further session: the next server behind the same name
// may be another one.
var errOtherServer = fmt.Errorf("%w: a further session offers other extensions or limits than the first", ErrProtocol)

// limits reads the answer to the request for limits, and those to what was asked ahead.
func (l *Lane) limits(g *announcement) error {
	for {
		h, err := l.header()
		if err != nil {
			return err
		}
		if h.Type == wire.TypeData {
			if err := l.mux.takeData(l); err != nil {
				return err
			}
			continue
		}
		if err := l.rest(h); err != nil {
			return err
		}
		p, err := wire.ParseReply(l.body)
		if err != nil {
			return Violation(err)
		}
		if p.ID == limitsID {
			return g.takeLimits(&p)
		}
		if err := l.mux.takeReply(l); err != nil {
			return err
		}
	}
}

// takeLimits takes the answer to the request for limits.
func (g *announcement) takeLimits(p *wire.Reply) (err error) {
	switch {
	case p.ID != limitsID || p.Type != wire.TypeStatus && p.Type != wire.TypeExtendedReply:
		return fmt.Errorf("%w: %v with id %d in answer to the question for limits", ErrProtocol, p.Type, p.ID)
	case p.Type == wire.TypeExtendedReply:
		g.limits, err = p.Limits()
	}
	return Violation(err)
}
