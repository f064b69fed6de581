package serve

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/users"
)

const (
	// reloadEvery is the time between two checks for a change of the users file.
	reloadEvery = 2 * time.Second

	// reloadShare bounds the cost of these checks: one takes no more than this part of
	// the time until the next, however many files the users file names.
	reloadShare = 50
)

// userSessions are the users who may log in, and their sessions: one for each connection
// of SFTP, and one for each request of HTTP.
type userSessions struct {
	dir      *users.Directory
	file     string // "" if there is none
	password string // of the one user there is then

	createOnly bool // that user may add files, and change none

	mu   sync.Mutex
	live map[*session]bool // mu
}

// A session is a login that is in use.
type session struct {
	login *users.Login
	peer  string
	end   context.CancelCauseFunc
}

// mayDo describes what the one user of a server without a users file may do.
func (p *userSessions) mayDo() string {
	u, _ := p.dir.User(users.OneTimeUser)
	switch {
	case u.Access == users.ReadOnly:
		return "clients may read; --upload create lets them add files, --upload overwrite change and remove all"
	case p.createOnly:
		return "clients may read, and add files; they cannot change or remove files that were there before"
	}
	return "clients may read, write, rename and remove all files"
}

// openSessions loads the users file. Without one there is a single user, who may read, and
// write if --upload allows it. Users of a file have their access there.
func (cfg *Config) openSessions(owners []int) (*userSessions, error) {
	file, err := cfg.SFTP.usersFile()
	if err != nil {
		return nil, err
	}
	p := &userSessions{file: file}
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
		return nil, failure.Mistake("upload", "--upload is for those without an account, and the users in %s have their access there; \"haul user set NAME --access WHAT\" changes it", file)
	}
	if p.dir, err = OpenUsersFile(file, owners...); err != nil {
		if cfg.SFTP.Users == "" {
			err = failure.Local.Errorf("%w; that is where users are looked for without --users FILE", err)
		}
		return nil, err
	}
	if len(p.dir.Names()) == 0 {
		return nil, failure.Mistake("users", "the users file %s has no users, so nobody could log in; \"haul user add NAME --users %s\" adds one", file, file)
	}
	return p, nil
}

// usersFile returns the users file, or "" if there is none.
func (cfg *SFTP) usersFile() (string, error) {
	if cfg.Users != "" {
		return filepath.Abs(cfg.Users)
	}
	file, err := DefaultUsersFile()
	if err != nil {
		return "", nil // where there is no place for one, there is none
	}
	// A file that exists and cannot be read is an error: its author relies on it.
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, nil
}

// reads returns the directories of the users file and of the files it names, if they
// exist.
func (p *userSessions) reads() []string {
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

// enter begins a session, unless the users file has changed and now refuses the login.
// The context ends when the login is no longer valid. The caller calls leave at the end
// of the session.
func (p *userSessions) enter(l *users.Login, peer string) (life context.Context, leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.dir.Recheck(l); err != nil {
		return nil, nil, err
	}
	g := &session{login: l, peer: peer}
	life, g.end = context.WithCancelCause(context.Background())
	if p.live == nil {
		p.live = map[*session]bool{}
	}
	p.live[g] = true
	return life, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		g.end(nil)
		delete(p.live, g)
	}, nil
}

// endRevoked ends the sessions whose login would be refused by now: see
// [users.Directory.Recheck]. It calls report for each first, with the reason.
func (p *userSessions) endRevoked(report func(g *session, why string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for g := range p.live {
		if refusal, ok := errors.AsType[*users.Refusal](p.dir.Recheck(g.login)); ok {
			report(g, refusal.Reason)
			g.end(errors.New(refusal.Reason))
		}
	}
}

// unreadable returns why this process may not read one of these files; nil if it may read all.
func unreadable(files ...string) error {
	for _, file := range files {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		_ = f.Close() // of nil it does nothing
	}
	return nil
}

// watch reloads the users file whenever it has changed, until ctx ends, and logs that: a mistake
// in it once, and when that is mended. It calls changed after each change. The name says whose
// users they are: "sftp". That the file cannot be read again is logged at once, before it changes.
func (p *userSessions) watch(ctx context.Context, name string, say sayFunc, changed func()) {
	if p.file == "" {
		return
	}
	blind := func(err error) {
		say(slog.LevelWarn, name+" users: changes are not noticed before a restart, as the file, or one that it names, cannot be read; let the user that haul runs as read it (chgrp, chmod 640)",
			slog.Int("uid", os.Getuid()), slog.String("error", err.Error()))
	}
	was := unreadable(p.dir.Files()...) // Reload reads files that have changed
	if was != nil {
		blind(was)
	}
	last := ""
	for pause := reloadEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		news, err := p.dir.Reload()
		pause = max(reloadEvery, reloadShare*time.Since(began))
		text := ""
		if err != nil {
			text = err.Error()
		}
		switch {
		case errors.Is(err, fs.ErrPermission) && text != last:
			if was == nil { // otherwise it was young at the start, and is still the same
				blind(err)
			}
		case text != "" && (news || text != last):
			say(slog.LevelWarn, name+" users: the previous file stays in force", slog.String("error", text))
		case news:
			say(slog.LevelInfo, name+" users: the changed file is in force", slog.Int("users", len(p.dir.Names())))
			changed()
		case text == "" && last != "":
			say(slog.LevelInfo, name+" users: the file has no mistake any more, and nothing that is not in force", slog.Int("users", len(p.dir.Names())))
		}
		last, was = text, nil
	}
}
