# %% [markdown]
# # llm-routing

# %%
print(1)
