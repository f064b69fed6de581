package status

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"time"
)

//go:embed page
var pageFiles embed.FS

var pageTemplate = template.Must(template.ParseFS(pageFiles, "page/page.html"))

// The parts of the page that run or are laid out, and the policy that allows them alone:
// nothing else in the page runs, whatever the names in it are.
var (
	pageStyle  = pagePart("page.css")
	pageScript = pagePart("page.js")
	pagePolicy = "default-src 'none'; img-src data:; style-src " + hashOf(pageStyle) + "; script-src " + hashOf(pageScript) +
		"; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

func pagePart(name string) string {
	text, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// hashOf returns the source expression for a style or a script (CSP level 3 §2.3.1).
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// servePage answers with the page. Without its script it is as it was when it was asked for.
func (b *Board) servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	_ = pageTemplate.ExecuteTemplate(w, "page", struct { // the client may be gone
		*view
		Style  template.CSS
		Script template.JS
	}{b.snapshot(time.Now()).page(b), template.CSS(pageStyle), template.JS(pageScript)})
}
