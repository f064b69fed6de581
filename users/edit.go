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
)

// Add adds a user at the end of a users file. It creates the file if the file does not exist.
func Add(ctx context.Context, file string, u User) error {
	err := CheckName(u.Name)
	if err == nil {
		err = edit(ctx, file, true, func(lines []string) ([]string, error) {
			if b, _ := block(lines, u.Name); b >= 0 {
				return nil, fmt.Errorf("user %s is there already", u.Name)
			}
			if len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) != "" {
				lines = append(lines, "\n")
			}
			more := u.statement()
			for _, l := range more {
				if strings.ContainsAny(l[:len(l)-1], "\r\n") { // text after a line break would be another statement
					return nil, errors.New("a value has a line break in it")
				}
			}
			return append(lines, more...), nil
		})
	}
	return wrap("add user to", file, err)
}

// Remove removes a user from a users file, with all settings and comments below the
// user's name.
func Remove(ctx context.Context, file, name string) error {
	return wrap("remove user from", file, edit(ctx, file, false, func(lines []string) ([]string, error) {
		begin, end := block(lines, name)
		if begin < 0 {
			return nil, fmt.Errorf("there is no user %s", name)
		}
		// If there is an empty line before the user and one after, keep only one.
		if begin > 0 && strings.TrimSpace(lines[begin-1]) == "" && (end == len(lines) || strings.TrimSpace(lines[end]) == "") {
			begin--
		}
		return append(lines[:begin:begin], lines[end:]...), nil
	}))
}

func wrap(what, file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, file, err)
}

// ending returns the line ending of a line.
func ending(line string) string {
	if strings.HasSuffix(line, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// block returns the index of the first line of a user, or -1, and the index after the last line.
// Empty lines and comments after the user belong to the next user.
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

// statement returns the lines for a user. It omits fields that are zero, so that the defaults of
// the file apply.
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
	// lockPatience is how long a change waits for other changes to finish.
	lockPatience = time.Minute

	lockEvery = 10 * time.Millisecond // the interval between two attempts
)

// edit changes a users file in one step: readers see either the old or the new file. It never
// writes an invalid users file.
func edit(ctx context.Context, file string, create bool, change func(lines []string) ([]string, error)) (err error) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target // otherwise the rename would replace the link
	}
	temp := file + ".new"
	f, err := openNew(ctx, temp, file)
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if runtime.GOOS == "windows" { // Windows does not remove open files
			_ = f.Close()
		}
		if !renamed { // after the rename, the name may belong to the next change
			_ = os.Remove(temp)
		}
		_ = f.Close() // last, as closing releases the lock
	}()
	var l loader
	text, err := l.read(file, maxFile, openToOthers|writable)
	if missing(err) && create {
		text, err = fileHead, nil
	}
	if err != nil {
		return err
	}
	if text, err = changed(file, text, change); err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if info := l.seen[0].info; info != nil {
		// A server that reads the file as another user must still be able to read it.
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
	if runtime.GOOS == "windows" { // Windows does not rename open files
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

// changed returns the text of a users file after the change, or an error if that text is invalid.
func changed(file, text string, change func(lines []string) ([]string, error)) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += "\n"
	}
	lines, err := change(lines)
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

// openNew creates the file to which a change is written. The file is also the lock: simultaneous
// changes wait for each other, and a file that a dead process left behind is taken over. The wait
// ends when ctx ends.
func openNew(ctx context.Context, temp, file string) (*os.File, error) {
	for late := time.Now().Add(lockPatience); ctx.Err() == nil && time.Now().Before(late); time.Sleep(lockEvery) {
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		created := err == nil
		if errors.Is(err, fs.ErrExist) && runtime.GOOS != "windows" { // on Windows the lock ends before the rename
			if f, err = openLeft(temp, file); missing(err) { // the other change has just finished
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

// openLeft opens the file of another change if it may be taken over: it must belong to this
// process's user, or to the owner of the users file, as a change sets that owner near its end.
func openLeft(temp, file string) (*os.File, error) {
	info, err := os.Lstat(temp)
	if err != nil {
		return nil, err
	}
	uid, known := ownerOf(info)
	if known && uid != os.Geteuid() {
		old, err := os.Stat(file)
		if err != nil {
			return nil, fs.ErrExist
		}
		if owner, _ := ownerOf(old); owner != uid {
			return nil, fs.ErrExist
		}
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrExist
	}
	return os.OpenFile(temp, os.O_WRONLY, 0)
}

// isNamed reports whether an open file still has its name. When a change is done, its file is
// renamed to the users file.
func isNamed(f *os.File, name string) bool {
	mine, err := f.Stat()
	named, nameErr := os.Lstat(name)
	return err == nil && nameErr == nil && os.SameFile(mine, named)
}
