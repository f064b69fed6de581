package web_test

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/golden"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// TestTranscripts replays the transcripts in testdata/transcripts: requests of clients, and the answers
// of a Handler. The events:
//
//	serve directory           a store in a directory, or in memory; clients may overwrite
//	file f "text"             the store has a file, which was modified a while ago
//	user alice                sends the next requests
//	<- PUT /f "text"          a request; the lines of its header begin with a tab
//	look                      lists the contents of the store
//
// The output shows only those header fields of an answer that transcripts are about. The first
// entity tag that the Handler sends is written tag-1, the next one tag-2, in answers and in
// requests.
func TestTranscripts(t *testing.T) {
	golden.Transcripts(t, func(t *testing.T) golden.Transcript {
		return &transcript{t: t, handler: &web.Handler{}}
	})
}

type transcript struct {
	t       *testing.T
	store   store.Store
	path    string // path of the store's directory; "" if it is in memory
	handler *web.Handler
	tags    []string
}

func (tr *transcript) Step(event string, say func(string, ...any)) error {
	verb, rest, _ := strings.Cut(event, " ")
	switch verb {
	case "serve":
		tr.store = mem(tr.t, nil)
		if rest == "directory" {
			if runtime.GOOS == "windows" {
				tr.t.Skip("the store keeps uploads where there are locks")
			}
			tr.store, tr.path = dir(tr.t, nil)
		}
		return tr.Step("user somebody", say)
	case "user":
		tr.handler = &web.Handler{Account: account(web.Account{User: rest, Store: tr.store, Access: web.AccessOverwrite})}
	case "file":
		name, text, _ := strings.Cut(rest, " ")
		text, err := strconv.Unquote(text)
		if m, ok := tr.store.(store.Tree); ok && err == nil {
			put(tr.t, m, name, text)
		} else if err == nil {
			writeFile(tr.t, tr.path+"/"+name, text)
		}
		return err
	case "<-":
		return tr.ask(rest, say)
	case "look":
		tr.look(say)
	default:
		return fmt.Errorf("not in the vocabulary")
	}
	return nil
}

// ask makes a request and prints the answer.
func (tr *transcript) ask(text string, say func(string, ...any)) error {
	for i, tag := range tr.tags {
		text = strings.ReplaceAll(text, fmt.Sprintf(`"tag-%d"`, i+1), tag)
	}
	lines := strings.Split(text, "\n\t")
	words := strings.SplitN(lines[0], " ", 3)
	body := ""
	if len(words) == 3 {
		var err error
		if body, err = strconv.Unquote(words[2]); err != nil {
			return err
		}
	}
	a := ask(tr.t, tr.handler, words[0]+" "+words[1], body, lines[1:]...)
	say("-> %d %s", a.status, http.StatusText(a.status))
	for _, key := range []string{"Etag", "Content-Range", "Upload-Offset", "Retry-After"} {
		value := a.header.Get(key)
		if key == "Etag" && value != "" {
			if words[0] != "GET" {
				continue // the tag of such a new file is weak for a while
			}
			value = tr.tag(value)
		}
		if value != "" {
			say("   %s: %s", key, value)
		}
	}
	if a.body != "" {
		say("   %q", a.body)
	}
	return nil
}

// tag returns the name of an entity tag.
func (tr *transcript) tag(value string) string {
	for i, known := range tr.tags {
		if known == value {
			return fmt.Sprintf(`"tag-%d"`, i+1)
		}
	}
	tr.tags = append(tr.tags, value)
	return fmt.Sprintf(`"tag-%d"`, len(tr.tags))
}

// look prints the contents of the store's directory.
func (tr *transcript) look(say func(string, ...any)) {
	entries, err := os.ReadDir(tr.path)
	if err != nil {
		tr.t.Fatal(err)
	}
	hidden := false
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".haul-") {
			hidden = true
		} else {
			say("%s %q", e.Name(), content(tr.t, tr.store, e.Name()))
		}
	}
	if hidden {
		say("and hidden files")
	}
}
