/* Browsers give pages opened from a folder (file://) no workers, and the search is one: there, a hidden frame takes its place. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<!doctype html><title>search</title>"
      frame.onload = () => {
        const inside = frame.contentWindow
        inside.postMessage = (data) => this.answer(data)
        const script = inside.document.createElement("script")
        script.src = address
        script.onload = () => {
          this.inside = inside
          this.waiting.forEach((data) => this.postMessage(data))
        }
        inside.document.body.append(script)
      }
      document.body.append(frame)
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
      else this.waiting.push(data)
    }

    answer(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }

    terminate() {}
  }
}
