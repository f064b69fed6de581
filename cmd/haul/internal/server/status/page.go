package status

import (
	"embed"
	"html/template"
	"net/http"
	"time"

	"github.com/haul-project/haul/internal/webpage"
)

//go:embed page
var pageFiles embed.FS

var pageTemplate = template.Must(template.ParseFS(pageFiles, "page/page.html"))

// These are the style and the script of the page, and a policy that allows no other style or
// script. So a file whose name appears in the page cannot inject a script.
var (
	pageStyle  = webpage.Part(pageFiles, "page/page.css")
	pageScript = webpage.Part(pageFiles, "page/page.js")
	pagePolicy = "default-src 'none'; img-src data:; style-src " + webpage.Source(pageStyle) + "; script-src " + webpage.Source(pageScript) +
		"; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

// servePage answers with the page. Without scripts, the browser shows the page, but does not update
// it.
func (b *Board) servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	_ = pageTemplate.ExecuteTemplate(w, "page", struct { // an error would mean that the client has left
		*view
		Style  template.CSS
		Script template.JS
	}{b.snapshot(time.Now()).page(b), template.CSS(pageStyle), template.JS(pageScript)})
}
