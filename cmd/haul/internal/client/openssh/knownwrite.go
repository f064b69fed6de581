package openssh

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/ownfile"
)

// knownWrites serializes additions to known_hosts. Two additions at the same time could both find
// that the key is missing, and add it twice.
var knownWrites sync.Mutex

// addKnown adds a key to a known_hosts file, unless the file contains the key. It reports whether
// it has added the key.
//
// One write appends the line. Other programs such as ssh append to the file too; if a new file were
// renamed over the old one, their additions would be lost. All readers ignore a truncated line, and
// the next addition begins on a new line.
func addKnown(file, name string, key ssh.PublicKey, hash bool) (added bool, err error) {
	if file == os.DevNull {
		return false, nil
	}
	if strings.ContainsAny(name, " \t\r\n,*?!|#@") || name == "" {
		return false, fmt.Errorf("%q cannot be written to known_hosts", name)
	}
	knownWrites.Lock()
	defer knownWrites.Unlock()

	var k known
	if err := k.read([]string{file}, name); err != nil {
		return false, err
	}
	if has(k.keys, key) != nil {
		return false, nil
	}
	if dir := filepath.Dir(file); !exists(dir) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	}
	if info, err := os.Lstat(file); err == nil && info.Mode()&fs.ModeSymlink != 0 && !ownfile.Ours(info) {
		return false, fmt.Errorf("%s is a symbolic link of another user, so it could lead to any file; remove it, or replace it with a file", file)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	line, err := knownLineFor(name, key, hash)
	if err != nil {
		return false, err
	}
	if open, err := endsInLine(f); err != nil {
		return false, err
	} else if open {
		line = "\n" + line
	}
	if _, err := io.WriteString(f, line); err != nil {
		return false, err
	}
	return true, nil
}

// knownLineFor returns a line of known_hosts with its line break.
func knownLineFor(name string, key ssh.PublicKey, hash bool) (string, error) {
	name = strings.ToLower(name)
	if hash {
		salt := make([]byte, 20)
		if _, err := rand.Read(salt); err != nil {
			return "", err
		}
		name = "|1|" + base64.StdEncoding.EncodeToString(salt) + "|" + base64.StdEncoding.EncodeToString(hashName(salt, name))
	}
	return fmt.Sprintf("%s %s %s\n", name, key.Type(), base64.StdEncoding.EncodeToString(key.Marshal())), nil
}

// endsInLine reports whether the last line of the file has no line break.
func endsInLine(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return last[0] != '\n', err
}
