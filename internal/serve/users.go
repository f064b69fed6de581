package serve

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

	"github.com/haul-project/haul/site"
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

// people are those who may log in, and those who have: by SFTP for as long as their
// connections last, over HTTP for a request.
type people struct {
	dir      *users.Directory
	file     string // "" if there is none
	password string // of the one user that there is then

	createOnly bool // that user brings new files, and changes none

	mu   sync.Mutex
	live map[*guest]bool // mu
}

// A guest is somebody who has logged in.
type guest struct {
	login *users.Login
	peer  string
	end   context.CancelCauseFunc
}

// mayDo says what the one user may do.
func (p *people) mayDo() string {
	u, _ := p.dir.User(users.OneTimeUser)
	switch {
	case u.Access == users.ReadOnly:
		return "clients may read; --upload create lets them add files, --upload overwrite change and remove all"
	case p.createOnly:
		return "clients may read, and add files; they change and remove none that was there before"
	}
	return "clients may read, write, rename and remove all files"
}

// openPeople loads the users file, or makes up a user if there is none, who may only
// read unless --upload says otherwise. --upload is not for users, who have an access of
// their own.
func (cfg *Config) openPeople(owners []int) (*people, error) {
	file, err := cfg.SFTP.usersFile()
	if err != nil {
		return nil, err
	}
	p := &people{file: file}
	policy := cfg.Files.Upload
	switch {
	case file == "":
		access := users.ReadOnly
		if p.createOnly = policy == site.UploadCreate; p.createOnly || policy == site.UploadOverwrite {
			access = users.Full
		}
		p.dir, p.password, err = users.OneTime(access)
		return p, err
	case policy != site.UploadNone && !cfg.ServesAnybody():
		return nil, usagef("upload", "--upload is for those without an account, and the users in %s have their access there; \"haul user set NAME --access WHAT\" changes it", file)
	}
	if p.dir, err = OpenUsersFile(file, owners...); err != nil {
		if cfg.SFTP.Users == "" {
			err = LocalError{fmt.Errorf("%w; that is where users are looked for without --users FILE", err)}
		}
		return nil, err
	}
	if len(p.dir.Names()) == 0 {
		return nil, usagef("users", "the users file %s has no users, so nobody could log in; \"haul user add NAME --users %s\" adds one", file, file)
	}
	return p, nil
}

// usersFile returns the users file that is meant, and "" if there is none.
func (cfg *SFTP) usersFile() (string, error) {
	if cfg.Users != "" {
		return filepath.Abs(cfg.Users)
	}
	file, err := DefaultUsersFile()
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

// enter notes a login, unless the users file has changed so that it would be
// refused by now. The context that it returns ends when the login would be refused.
// The caller calls leave when they are gone.
func (p *people) enter(l *users.Login, peer string) (life context.Context, leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.dir.Recheck(l); err != nil {
		return nil, nil, err
	}
	g := &guest{login: l, peer: peer}
	life, g.end = context.WithCancelCause(context.Background())
	if p.live == nil {
		p.live = map[*guest]bool{}
	}
	p.live[g] = true
	return life, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		g.end(nil)
		delete(p.live, g)
	}, nil
}

// endUnwelcome ends the contexts of logins that would be refused by now: see
// [users.Directory.Recheck]. It calls report for each before, with the reason.
func (p *people) endUnwelcome(report func(g *guest, why string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for g := range p.live {
		if refusal, ok := errors.AsType[*users.Refusal](p.dir.Recheck(g.login)); ok {
			report(g, refusal.Reason)
			g.end(errors.New(refusal.Reason))
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
