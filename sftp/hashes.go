package sftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/internal/storewire"
)

// Clients such as rclone check copies by running md5sum or sha1sum over SSH. The server answers
// these commands itself: it starts no shell and no program.

// hashPrograms maps each command that the server answers to the name of its hash.
var hashPrograms = map[string]string{"md5sum": "md5", "sha1sum": "sha1", "sha256sum": "sha256"}

// maxCommand is the longest accepted command, in bytes. It leaves room for the longest path that
// Linux allows, even if each of its bytes is escaped.
const maxCommand = 16 << 10

// A hashCommand is a command that hashes files.
type hashCommand struct {
	program string   // a key of hashPrograms
	paths   []string // if empty, the command hashes the standard input
}

// parseHashCommand parses the command of an exec request (RFC 4254, section 6.5). It accepts the
// name of a program and any number of paths, but no options.
func parseHashCommand(text string) (cmd hashCommand, ok bool) {
	words, ok := splitWords(text)
	if !ok || len(words) == 0 || hashPrograms[words[0]] == "" {
		return hashCommand{}, false
	}
	for _, path := range words[1:] {
		if strings.HasPrefix(path, "-") {
			return hashCommand{}, false
		}
	}
	return hashCommand{words[0], words[1:]}, true
}

// splitWords splits a command into words, as a POSIX shell splits a simple command without
// expansions. It refuses any command that a shell might read differently: a special character must
// be in single quotes or follow a backslash.
func splitWords(text string) (words []string, ok bool) {
	if len(text) > maxCommand || strings.IndexByte(text, 0) >= 0 {
		return nil, false
	}
	var word []byte
	inWord := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == ' ' {
			if inWord {
				words, word, inWord = append(words, string(word)), word[:0], false
			}
			continue
		}
		inWord = true
		switch {
		case c == '\'':
			quoted, _, closed := strings.Cut(text[i+1:], "'")
			if !closed {
				return nil, false
			}
			word = append(word, quoted...)
			i += len(quoted) + 1
		case c == '\\':
			i++
			if i == len(text) || text[i] == '\n' { // a shell drops a backslash at the end of the command or before a newline
				return nil, false
			}
			word = append(word, text[i])
		case isPlain(c):
			word = append(word, c)
		default:
			return nil, false
		}
	}
	if inWord {
		words = append(words, string(word))
	}
	return words, true
}

// isPlain reports whether a byte has no special meaning to a shell in any position.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c >= 0x80 || strings.IndexByte("@%+:,./-_", c) >= 0
}

// serveHashes executes a hash command on a channel, and closes the channel.
func (c *userConn) serveHashes(ctx context.Context, ch ssh.Channel, stdin io.Reader, cmd hashCommand) {
	defer c.recover(nil)
	c.commands.Add(1)
	defer func() {
		c.commands.Add(-1)
		c.endIfIdle()
	}()
	endChannel(ch, c.runHashes(ctx, ch, stdin, cmd))
}

// runHashes hashes the files of a command, or stdin. Like the programs of GNU coreutils, it writes
// a line for each file that can be read, and an error for each one that cannot. It returns the exit
// status.
func (c *userConn) runHashes(ctx context.Context, ch ssh.Channel, stdin io.Reader, cmd hashCommand) (status uint32) {
	_, h := chooseHash([]byte(hashPrograms[cmd.program]))
	paths, sum := cmd.paths, func(path string) error {
		return c.audit(cmd.program, c.paths.join(path), "", c.hashPath(ctx, path, h))
	}
	if len(paths) == 0 {
		paths, sum = []string{"-"}, func(string) error { return c.hashStream(ctx, stdin, h) }
	}
	for _, path := range paths {
		h.Reset()
		var err error
		if e := sum(path); e != nil {
			status = 1
			_, text := storewire.StatusOf(e)
			_, err = fmt.Fprintf(ch.Stderr(), "%s: %q: %s\n", cmd.program, path, text)
		} else {
			_, err = io.WriteString(ch, hashLine(h.Sum(nil), path))
		}
		if err != nil || ctx.Err() != nil { // the hashes of the other files would not be received
			return 1
		}
	}
	return status
}

// hashPath hashes a file up to the size that it has now.
func (c *userConn) hashPath(ctx context.Context, path string, h hash.Hash) error {
	if err := c.reserve(); err != nil {
		return err
	}
	defer c.unreserve()
	f, err := c.openToHash(ctx, c.paths.join(path))
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = c.hashBlock(ctx, io.NewSectionReader(f, 0, fi.Size()), fi.Size(), h)
	return err
}

// hashStream hashes all data that a client sends. It takes its turn at hashing only when it has
// data to hash, so that a slow client does not delay others.
func (c *userConn) hashStream(ctx context.Context, r io.Reader, h hash.Hash) error {
	buf := bigBuffers.Get().(*[bigBuffer]byte)
	defer bigBuffers.Put(buf)
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			if _, err := c.hashInTurn(ctx, bytes.NewReader(buf[:n]), nil, h); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// hashLine returns a line of output. A leading backslash in the line says that the path has escaped
// characters, as in GNU coreutils.
func hashLine(sum []byte, path string) string {
	escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(path)
	mark := ""
	if escaped != path {
		mark = `\`
	}
	return mark + hex.EncodeToString(sum) + "  " + escaped + "\n"
}

// endChannel closes a channel, after sending the exit status of its command (RFC 4254, section
// 6.10).
func endChannel(ch ssh.Channel, status uint32) {
	// Errors are ignored: they mean that the connection is lost.
	_ = ch.CloseWrite()
	_, _ = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, status))
	_ = ch.Close()
}
