package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/users"
)

const (
	// reloadEvery is how long a change of the users file may go unnoticed.
	reloadEvery = 2 * time.Second

	// reloadShare bounds what looking for changes costs: one look takes no more
	// than this part of the time until the next, however many files the users
	// file names.
	reloadShare = 50
)

// people are those who may log in by SFTP, and those who have.
type people struct {
	dir      *users.Directory
	file     string // "" if there is none
	password string // of the one user that there is then

	mu   sync.Mutex
	live map[*ssh.ServerConn]guest // mu
}

// A guest is somebody who has logged in.
type guest struct {
	user users.User // as he was then
	end  context.CancelCauseFunc
}

// openPeople loads the users file, or makes up a user if there is none.
func (f *sftpFlags) openPeople(owners []int) (*people, error) {
	file, err := f.usersFile()
	if err != nil {
		return nil, err
	}
	p := &people{file: file, live: map[*ssh.ServerConn]guest{}}
	if file == "" {
		p.dir, p.password, err = users.OneTime()
		return p, err
	}
	if p.dir, err = users.Open(file, owners...); err != nil {
		if f.users == "" {
			err = fmt.Errorf("%w; that is where users are looked for without --users FILE", err)
		}
		return nil, localError{err}
	}
	if len(p.dir.Names()) == 0 {
		return nil, usagef("the users file %s has no users, so nobody could log in; \"haul user add NAME --users %s\" adds one", file, file)
	}
	return p, nil
}

// usersFile returns the users file that is meant, and "" if there is none.
func (f *sftpFlags) usersFile() (string, error) {
	if f.users != "" {
		return filepath.Abs(f.users)
	}
	file, err := defaultUsersFile()
	if err != nil {
		return "", nil // where there is no place for one, there is none
	}
	// One that is there and cannot be read must not be passed over: whoever made
	// it relies on it.
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, nil
}

// reads returns the directories of the users file and of the files that it
// names, as far as they exist.
func (p *people) reads() []string {
	found := map[string]bool{}
	add := func(file string) {
		dir := filepath.Dir(file)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			found[dir] = true
		}
	}
	for _, file := range p.dir.Files() {
		add(file)
		if real, err := filepath.EvalSymlinks(file); err == nil && real != file {
			add(real)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// unreadable says why changes of the users file will not be noticed, or returns
// nil.
func (p *people) unreadable() error {
	if p.file == "" {
		return nil
	}
	f, err := os.Open(p.file)
	if err != nil {
		return err
	}
	return f.Close()
}

// enter notes that somebody has logged in, unless the users file has changed so
// that he may not. What it returns ends when he may not any more.
func (p *people) enter(c *ssh.ServerConn, u users.User) (context.Context, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if why := p.changed(u); why != "" {
		return nil, errors.New(why)
	}
	life, end := context.WithCancelCause(context.Background())
	p.live[c] = guest{u, end}
	return life, nil
}

// leave notes that somebody is gone.
func (p *people) leave(c *ssh.ServerConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g, ok := p.live[c]; ok {
		g.end(nil)
		delete(p.live, c)
	}
}

// changed says why a login that was in order is no more. With another root or
// access he logs in anew: all connections of a user are to see the same files.
func (p *people) changed(was users.User) string {
	now, ok := p.dir.User(was.Name)
	switch {
	case !ok:
		return "the user was removed"
	case now.Disabled:
		return "the user was disabled"
	case now.Root != was.Root:
		return "the user has another root now"
	case now.Access != was.Access:
		return "the user has another access now"
	}
	return ""
}

// endUnwelcome ends the connections of those who may not have them any more. It
// tells of each before, and why.
func (p *people) endUnwelcome(tell func(c *ssh.ServerConn, why string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, g := range p.live {
		if why := p.changed(g.user); why != "" {
			tell(c, why)
			g.end(errors.New(why))
		}
	}
}

// watch reloads the users file whenever it has changed, until ctx ends, and tells
// what came of it: an error only if it is another than the last.
func (p *people) watch(ctx context.Context, tell func(changed bool, err error)) {
	if p.file == "" {
		return
	}
	last := ""
	for pause := reloadEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		changed, err := p.dir.Reload()
		pause = max(reloadEvery, reloadShare*time.Since(began))
		text := fmt.Sprint(err)
		if changed || err != nil && text != last {
			tell(changed, err)
		}
		last = text
	}
}
