// Package logins manages the users who may log in to a service, their sessions, and the users file,
// which is read again when it changes.
package logins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/users"
)

const (
	// reloadEvery is the time between two checks for a change of the users file.
	reloadEvery = 2 * time.Second

	// reloadShare limits the cost of these checks, however many files the users file names: the
	// pause after a check is at least reloadShare times as long as the check took.
	reloadShare = 50
)

// Sessions holds the users who may log in, and their sessions. Each SFTP connection and each HTTP
// request is a session.
type Sessions struct {
	Users *users.Directory
	File  string // path of the users file; "" without a users file

	mu   sync.Mutex
	live map[*Session]bool // guarded by mu
}

// A Session is an SFTP connection or an HTTP request of a user who has logged in.
type Session struct {
	Login *users.Login
	Peer  string
	end   context.CancelCauseFunc
}

// Reads returns the existing directories that contain the users file or a file that it names.
func (p *Sessions) Reads() []string {
	found := map[string]bool{}
	add := func(file string) {
		dir := filepath.Dir(file)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			found[dir] = true
		}
	}
	for _, file := range p.Users.Files() {
		add(file)
		if real, err := filepath.EvalSymlinks(file); err == nil && real != file {
			add(real)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Enter begins a session. It fails if the users file has changed and the login would now be
// refused. The context life is cancelled when the login is no longer valid. The caller calls leave
// when the session is over.
func (p *Sessions) Enter(l *users.Login, peer string) (life context.Context, leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Users.Recheck(l); err != nil {
		return nil, nil, err
	}
	g := &Session{Login: l, Peer: peer}
	life, g.end = context.WithCancelCause(context.Background())
	if p.live == nil {
		p.live = map[*Session]bool{}
	}
	p.live[g] = true
	return life, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		g.end(nil)
		delete(p.live, g)
	}, nil
}

// EndRevoked ends the sessions whose logins would now be refused: see [users.Directory.Recheck].
// Before it ends a session, it calls report with the reason.
func (p *Sessions) EndRevoked(report func(g *Session, why string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for g := range p.live {
		if refusal, ok := errors.AsType[*users.Refusal](p.Users.Recheck(g.Login)); ok {
			report(g, refusal.Reason)
			g.end(errors.New(refusal.Reason))
		}
	}
}

// Watch reloads the users file whenever the file has changed, until ctx ends, and logs each reload.
// It logs a mistake in the file once, and logs also when the mistake is corrected. After each
// change it calls changed. name is the service that the users log in to, such as "sftp". If this
// process may not read the file again, Watch logs that at once, without waiting for a change.
func (p *Sessions) Watch(ctx context.Context, name string, say service.SayFunc, changed func()) {
	if p.File == "" {
		return
	}
	blind := func(err error) {
		say(slog.LevelWarn, name+" users: changes are not noticed before a restart, as the file, or one that it names, cannot be read; let the user that haul runs as read it (chgrp, chmod 640)",
			slog.Int("uid", os.Getuid()), slog.String("error", err.Error()))
	}
	// Check this now, because Reload opens files only after they have changed.
	was := service.Unreadable(p.Users.Files()...)
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
		news, err := p.Users.Reload()
		pause = max(reloadEvery, reloadShare*time.Since(began))
		text := ""
		if err != nil {
			text = err.Error()
		}
		switch {
		case errors.Is(err, fs.ErrPermission) && text != last:
			if was == nil { // otherwise this was logged already, before the first reload
				blind(err)
			}
		case text != "" && (news || text != last):
			say(slog.LevelWarn, name+" users: the previous file stays in force", slog.String("error", text))
		case news:
			say(slog.LevelInfo, name+" users: the changed file is in force", slog.Int("users", len(p.Users.Names())))
			changed()
		case text == "" && last != "":
			say(slog.LevelInfo, name+" users: the file has no mistake any more, and nothing that is not in force", slog.Int("users", len(p.Users.Names())))
		}
		last, was = text, nil
	}
}

// OpenUsersFile loads a users file, which must exist and belong to root or to one of the user IDs
// in owners.
func OpenUsersFile(path string, owners ...int) (*users.Directory, error) {
	d, err := users.Open(path, owners...)
	if err == nil {
		return d, nil
	}
	if _, e := os.Stat(path); errors.Is(e, fs.ErrNotExist) { // otherwise only a file that the users file names is missing
		err = noUsersFileError{path, err}
	}
	return nil, failure.Local.Wrap(err)
}

// A noUsersFileError is the error for a missing users file. It says how to create one.
type noUsersFileError struct {
	path string
	err  error
}

func (e noUsersFileError) Error() string {
	return fmt.Sprintf("there is no users file %s; \"haul user add NAME --users %s\" makes it", e.path, e.path)
}

func (e noUsersFileError) Unwrap() error { return e.err }
