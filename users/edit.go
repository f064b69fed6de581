package users

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/internal/ownfile"
)

// Add adds a user at the end of a users file. If the file does not exist, Add creates it.
func Add(ctx context.Context, file string, u User) error {
	err := CheckName(u.Name)
	if err == nil {
		err = edit(ctx, file, true, adding(u))
	}
	return wrap("add user to", file, err)
}

// Remove removes a user from a users file: the line with the user's name, all statements below it,
// and the comments between them.
func Remove(ctx context.Context, file, name string) error {
	return wrap("remove user from", file, edit(ctx, file, false, removing(name)))
}

// A change edits a users file: it receives the lines of the file, and returns the new lines. It may
// overwrite the slice that it receives.
type change func(lines []string) ([]string, error)

// adding returns the change that adds a user, whose name is valid.
func adding(u User) change {
	return func(lines []string) ([]string, error) {
		if b, _ := block(lines, u.Name); b >= 0 {
			return nil, fmt.Errorf("user %s is there already", u.Name)
		}
		if len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) != "" {
			lines = append(lines, "\n")
		}
		more := u.statement()
		for _, l := range more {
			// Text after a line break would become another statement.
			if strings.ContainsAny(l[:len(l)-1], "\r\n") {
				return nil, errors.New("a value has a line break in it")
			}
		}
		return append(lines, more...), nil
	}
}

// removing returns the change that removes a user.
func removing(name string) change {
	return func(lines []string) ([]string, error) {
		begin, end := block(lines, name)
		if begin < 0 {
			return nil, fmt.Errorf("there is no user %s", name)
		}
		// If there are empty lines both before and after the user, keep only one of them.
		if begin > 0 && strings.TrimSpace(lines[begin-1]) == "" && (end == len(lines) || strings.TrimSpace(lines[end]) == "") {
			begin--
		}
		return append(lines[:begin:begin], lines[end:]...), nil
	}
}

func wrap(what, file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, file, err)
}

// ending returns the line break at the end of a line.
func ending(line string) string {
	if strings.HasSuffix(line, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// block returns the index of a user's first line, and the index after the last one. begin is -1 if
// there is no such user. Empty lines and comments after the user's last statement belong to the
// next user.
func block(lines []string, name string) (begin, end int) {
	begin = -1
	for i, l := range lines {
		word, rest := cutSpace(strings.Trim(l, " \t\r\n"))
		switch {
		case word == "user" && begin >= 0:
			return begin, end
		case word == "user" && rest == name:
			begin, end = i, i+1
		case begin >= 0 && word != "" && word[0] != '#':
			end = i + 1
		}
	}
	return begin, end
}

// statement returns the lines for a user. Fields that are zero have no line, so the defaults of the
// file apply.
func (u *User) statement() []string {
	lines := []string{"user " + u.Name + "\n"}
	say := func(word, rest string) {
		lines = append(lines, strings.TrimRight("  "+word+" "+rest, " ")+"\n")
	}
	if !u.Password.IsZero() {
		say("password", u.Password.Encoded())
	}
	for _, k := range u.Keys {
		say("key", k.line)
	}
	for _, f := range u.KeyFiles {
		say("keys", f)
	}
	if u.Root != "" {
		say("root", u.Root)
	}
	if u.Access != Full {
		say("access", u.Access.String())
	}
	if u.Limit != 0 {
		say("limit", strconv.FormatInt(u.Limit, 10))
	}
	if len(u.From) > 0 {
		var nets []string
		for _, n := range u.From {
			nets = append(nets, n.String())
		}
		say("from", strings.Join(nets, " "))
	}
	if u.Require != AnyMethod {
		say("require", u.Require.String())
	}
	if u.Disabled {
		say("disabled", "")
	}
	return lines
}

// fileHead is the beginning of a new users file.
const fileHead = "# Users of haul. \"haul user --help\" says what may stand here.\n"

const (
	// lockPatience is how long a change waits until other changes are complete.
	lockPatience = time.Minute

	lockEvery = 10 * time.Millisecond // interval between two attempts to get the lock
)

// edit changes a users file in one step: readers see either the old or the new file. If the new
// file would be invalid, it returns an error and changes nothing.
func edit(ctx context.Context, file string, create bool, do change) (err error) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target // otherwise, the rename would replace the link itself
	}
	temp := file + ".new"
	f, err := openNew(ctx, temp, file)
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if runtime.GOOS == "windows" { // Windows cannot remove open files
			_ = f.Close()
		}
		if !renamed { // after the rename, another change may have created a file of that name
			_ = os.Remove(temp)
		}
		_ = f.Close() // last, because closing the file releases the lock
	}()
	var l loader
	text, err := l.read(file, maxFile, openToOthers|writable)
	if missing(err) && create {
		text, err = fileHead, nil
	}
	if err != nil {
		return err
	}
	if text, err = changed(file, text, do); err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if info := l.seen[0].info; info != nil {
		// A server that runs as another user must still be able to read the file.
		if err := keepOwner(f, info); err != nil {
			return err
		}
		if runtime.GOOS != "windows" {
			if err := f.Chmod(info.Mode().Perm()); err != nil {
				return err
			}
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if runtime.GOOS == "windows" { // Windows cannot rename open files
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := os.Rename(temp, file); err != nil {
		return err
	}
	renamed = true
	return syncDir(filepath.Dir(file))
}

// changed returns the text of the users file after the change. It returns an error if that text
// would be invalid.
func changed(file, text string, do change) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += "\n"
	}
	lines, err := do(lines)
	if err != nil {
		return "", err
	}
	text = strings.Join(lines, "")
	if _, err := parseFile(file, text); err != nil {
		return "", fmt.Errorf("the result would be wrong: %w", err)
	}
	if len(text) > maxFile {
		return "", fmt.Errorf("the result would have %d bytes, and %d are the most", len(text), maxFile)
	}
	return text, nil
}

// openNew creates the file to which a change is written. That file is also the lock: other changes
// wait until it is gone, and a file that a dead process has left is taken over. The wait ends when
// ctx ends.
func openNew(ctx context.Context, temp, file string) (*os.File, error) {
	for late := time.Now().Add(lockPatience); ctx.Err() == nil && time.Now().Before(late); time.Sleep(lockEvery) {
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		created := err == nil
		// On Windows the lock is released before the rename, so a file of that name is never taken
		// over.
		if errors.Is(err, fs.ErrExist) && runtime.GOOS != "windows" {
			if f, err = openLeft(temp, file); missing(err) { // the other change has just been completed
				continue
			}
		}
		if err == nil {
			locked, lockErr := filelock.Try(f)
			switch {
			case lockErr != nil && created: // the file system does not support locks
				return f, nil
			case locked && isNamed(f, temp):
				return f, errors.Join(f.Truncate(0), f.Chmod(0o600))
			}
			_ = f.Close()
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("wait for another change: %w", ctx.Err())
	}
	return nil, fmt.Errorf("another change has been under way for %v, or was cut short; in that case remove %s: %w", lockPatience, temp, fs.ErrExist)
}

// openLeft opens a file that another change has left. The file may be taken over if it belongs to
// this process's user, or to the owner of the users file: edit makes that owner the owner of the new
// file shortly before the rename.
func openLeft(temp, file string) (*os.File, error) {
	info, err := os.Lstat(temp)
	if err != nil {
		return nil, err
	}
	uid, _, known := ownfile.OwnerOf(info)
	if known && uid != os.Geteuid() {
		old, err := os.Stat(file)
		if err != nil {
			return nil, fs.ErrExist
		}
		if owner, _, _ := ownfile.OwnerOf(old); owner != uid {
			return nil, fs.ErrExist
		}
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrExist
	}
	return ownfile.Open(temp, os.O_WRONLY, 0, uid)
}

// isNamed reports whether the open file f still has the given name. The file loses that name when its
// change is complete, because it is then renamed to the users file.
func isNamed(f *os.File, name string) bool {
	mine, err := f.Stat()
	named, nameErr := os.Lstat(name)
	return err == nil && nameErr == nil && os.SameFile(mine, named)
}
