package sftp

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/golden"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A transcript in testdata/transcripts contains a client's requests in one session and the
// server's replies. The events are:
//
//	file notes "text"         the server has a file
//	<- OPEN 1 "notes" READ    requests, each with its id; those on lines that begin with
//	                          a tab are sent together with the one above
//	holds notes               shows the file's current content
//
// Handles are h1 for the first that the server returns, h2 for the next. A request that has no
// name in request is written as its type and its bytes in hex.
func TestTranscripts(t *testing.T) {
	golden.Transcripts(t, func(t *testing.T) golden.Transcript {
		return &transcript{newTestSession(t, nil), nil}
	})
}

type transcript struct {
	*sftpPeer
	handles []string
}

func (tr *transcript) Step(event string, say func(string, ...any)) error {
	verb, rest, _ := strings.Cut(event, " ")
	switch verb {
	case "file":
		var name, text string
		if _, err := fmt.Sscanf(rest, "%s %q", &name, &text); err != nil {
			return err
		}
		tr.put(name, text)
	case "holds":
		text, status := tr.get(rest)
		say("%q %v", text, status)
	case "<-":
		var packets []byte
		requests := strings.Split(rest, "\n\t")
		for _, r := range requests {
			packet, err := tr.request(r)
			if err != nil {
				return err
			}
			packets = append(packets, packet...)
		}
		tr.send(packets)
		for range requests {
			say("-> %s", tr.describe(tr.reply()))
		}
	default:
		return fmt.Errorf("not in the vocabulary")
	}
	return nil
}

// request makes a packet from a line.
func (tr *transcript) request(line string) ([]byte, error) {
	name, rest, _ := strings.Cut(line, " ")
	for i, h := range tr.handles {
		rest = strings.Replace(rest, fmt.Sprintf(" h%d", i+1), fmt.Sprintf(" %q", h), 1)
	}
	var id, n uint32
	var off int64
	var what, more string
	var err error
	switch name {
	case "INIT":
		_, err = fmt.Sscan(rest, &n)
		return wire.AppendInit(nil, n), err
	case "OPEN":
		_, err = fmt.Sscanf(rest, "%d %q %s", &id, &what, &more)
		return wire.AppendOpen(nil, id, what, openFlags(more), wire.Attrs{}), err
	case "CLOSE":
		_, err = fmt.Sscanf(rest, "%d %q", &id, &what)
		return wire.AppendClose(nil, id, what), err
	case "READ":
		_, err = fmt.Sscanf(rest, "%d %q %d %d", &id, &what, &off, &n)
		return wire.AppendRead(nil, id, what, off, n), err
	case "WRITE":
		_, err = fmt.Sscanf(rest, "%d %q %d %q", &id, &what, &off, &more)
		return wire.AppendWrite(nil, id, what, off, []byte(more)), err
	case "FSTAT":
		_, err = fmt.Sscanf(rest, "%d %q", &id, &what)
		return wire.AppendFstat(nil, id, what), err
	case "STAT":
		_, err = fmt.Sscanf(rest, "%d %q", &id, &what)
		return wire.AppendStat(nil, id, what), err
	}
	var kind byte
	if _, err := fmt.Sscan(name, &kind); err != nil {
		return nil, fmt.Errorf("request %s is not in the vocabulary", name)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
	return append([]byte{0, 0, 0, byte(1 + len(b)), kind}, b...), err
}

// openFlags returns the flags with the given names.
func openFlags(names string) (flags wire.OpenFlags) {
	for name := range strings.SplitSeq(names, "|") {
		for f := wire.OpenRead; f <= wire.OpenExclusive; f <<= 1 {
			if f.String() == name {
				flags |= f
			}
		}
	}
	return flags
}

// describe formats a reply as one line.
func (tr *transcript) describe(r wire.Reply) string {
	switch r.Type {
	case wire.TypeVersion:
		if r.Pairs.Known() == wire.AllExtensions {
			return fmt.Sprintf("VERSION %d with all extensions", r.Version)
		}
		return fmt.Sprintf("VERSION %d", r.Version)
	case wire.TypeHandle:
		tr.handles = append(tr.handles, string(r.Handle))
		return fmt.Sprintf("HANDLE %d h%d", r.ID, len(tr.handles))
	case wire.TypeData:
		return fmt.Sprintf("DATA %d %q", r.ID, r.Data)
	case wire.TypeAttrs:
		return fmt.Sprintf("ATTRS %d size %d", r.ID, r.Attrs.Size)
	case wire.TypeStatus:
		return fmt.Sprintf("STATUS %d %v %q", r.ID, r.Status, r.Message)
	}
	return fmt.Sprintf("%v %d", r.Type, r.ID)
}
