//! Models: codecs (`wire`, pure), the HTTP worker (`http`), the offline model (`scripted`).
