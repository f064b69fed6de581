package main

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
)

// A copy that receives nothing leaves nothing behind, whatever stopped it.
func TestGetOfNothingLeavesNothing(t *testing.T) {
	dead := startWeb(t, nil)
	deadURL := dead.URL
	dead.Close()
	answering := func(code int, unless string) string {
		l := startWeb(t, map[string]string{"d/f": "f"})
		l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == unless {
				return false
			}
			w.WriteHeader(code)
			return true
		})
		return l.URL
	}
	refused := startLabWith(t, labOptions{account: func(a *sftp.Account) { a.Tree = nil }}, nil)
	l := startLab(t, map[string]string{"sealed/f": "f", "d/f": "f"})
	l.files = sealedTree{l.files}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"get", "-r", deadURL + "/", "HERE"}, exitNoAnswer},
		{[]string{"get", "-r", deadURL + "/d/", "HERE"}, exitNoAnswer},
		{[]string{"get", "-r", "--continue", deadURL + "/", "HERE"}, exitNoAnswer},
		{[]string{"get", "-r", deadURL + "/", "."}, exitNoAnswer},
		{[]string{"get", "-r", answering(http.StatusNotFound, "") + "/", "HERE"}, exitNotFound},
		// The name is not a pattern.
		{[]string{"get", answering(http.StatusNotFound, "") + "/zz%5B1", "HERE"}, exitNotFound},
		{[]string{"get", answering(http.StatusNotFound, "") + "/zz%5B1", "-"}, exitNotFound},
		{[]string{"get", "-r", answering(http.StatusUnauthorized, "") + "/", "HERE"}, exitRefused},
		{[]string{"get", "-r", answering(http.StatusForbidden, "") + "/", "HERE/"}, exitRefused},
		{[]string{"get", "-r", answering(http.StatusForbidden, "/d/") + "/d", "HERE/"}, exitRefused},
		{refused.args("get", "-r", "lab:", "HERE"), exitRefused},
		{l.args("get", "-r", "lab:missing", "HERE"), exitNotFound},
		{l.args("get", "-r", "lab:sealed", "HERE"), exitRefused},
		{l.args("get", "-r", "--continue", "lab:sealed", "HERE"), exitRefused},
		{l.args("get", "-r", "lab:sealed", "."), exitRefused},
		{l.args("get", "lab:d/f", "HERE/"), exitRefused},
	} {
		t.Run(fmt.Sprint(c.args), func(t *testing.T) {
			t.Chdir(t.TempDir())
			for i, a := range c.args {
				if a == "HERE" || a == "HERE/" {
					c.args[i] = "new" + a[len("HERE"):]
				}
			}
			if code, _, msg := haul(t, append(c.args, "-v")...); code != c.code || strings.Contains(msg, "made ") && !strings.HasSuffix(c.args[len(c.args)-1], "/") {
				t.Errorf("exit code %d, want %d: %s", code, c.code, msg)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// sealedTree refuses to be read or listed.
type sealedTree struct{ store.Tree }

func (sealedTree) OpenDir(context.Context, string) (store.Entries, error) {
	return nil, fs.ErrPermission
}

func (sealedTree) OpenFile(context.Context, string, store.Access) (store.Handle, error) {
	return nil, fs.ErrPermission
}
